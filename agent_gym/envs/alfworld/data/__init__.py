"""Where games come from: folders of the original's files, and generated households."""

"""Where levels come from: files, and the room generator."""

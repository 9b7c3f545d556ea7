"""What a run leaves: its folder, checkpoints, metrics, warnings, and what a person sees of it."""

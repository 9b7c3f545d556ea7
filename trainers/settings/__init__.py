"""All settings of a run, how they are read, and the presets. Nothing here imports torch."""

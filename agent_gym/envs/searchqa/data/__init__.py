"""Where generated questions come from: worlds from their seeds, made once a process."""

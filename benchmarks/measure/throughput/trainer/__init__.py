"""One training iteration here beside one of another trainer."""

"""Speed beside the original packages."""

"""The original packages: which interpreter has them, and the scripts that it runs without this package."""

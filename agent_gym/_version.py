"""Version of the package, the single source that the build reads."""

__version__ = "0.1.0"

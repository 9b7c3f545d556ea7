"""Measurements of this project: speed beside the originals, sweeps, search, sites, GPUs."""

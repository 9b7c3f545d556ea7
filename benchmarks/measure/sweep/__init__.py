"""Sweeps over algorithms at one setting."""

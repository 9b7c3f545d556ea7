"""Ways to turn prompt ids into reply ids."""

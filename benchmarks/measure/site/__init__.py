"""The shop's site under load."""

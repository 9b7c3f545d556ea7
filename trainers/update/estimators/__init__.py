"""Estimators: from the rows of a batch to the two parts of their advantages, a family a file."""

"""One prepared measurement of training on a large GPU; `python -m benchmarks.measure.gpu --help`."""

"""ALFWorld: household tasks in text, with the stock engine's exact semantics."""

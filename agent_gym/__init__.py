"""Multi-turn text environments for LLM agents behind one Gymnasium API."""

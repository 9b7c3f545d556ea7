"""The generated world: facts, the passages that tell them, and questions composed of them."""

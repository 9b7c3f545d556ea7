"""Search by meaning: embeddings, their vectors, the nearest ones."""

"""What a model folder must hold before it is trained: family, weights, vocabulary, chat template."""

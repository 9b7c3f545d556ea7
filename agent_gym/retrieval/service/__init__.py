"""Search over HTTP: the server, its client, and the two published dialects."""

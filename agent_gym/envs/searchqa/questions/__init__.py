"""Questions: their files in every published form, and how an answer is scored."""

"""The household game: its rules, texts and compiled form, without Gymnasium, prompts or folders."""

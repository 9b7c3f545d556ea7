"""`agent-gym view`: recorded episodes as one self-contained HTML page.

`records` reads episode files, `prompts` renders the prompts of their turns again with the `recipes` found beside
them, `tokens` finds the texts of sampled tokens, and `page` puts all into one file.
"""

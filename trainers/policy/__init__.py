"""The policy: a language model with its tokenizer, what it says of given tokens, and where its weights lie."""

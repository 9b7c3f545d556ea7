"""STAPO: which turns stand out, and the term that acts on them."""

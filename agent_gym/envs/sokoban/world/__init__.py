"""The rules of Sokoban, and search over them."""

"""What commands of all packages share at the terminal: progress bars, options, a person's turn."""

"""What everything stands on: errors, seeds, files, locks, checks of arguments, exact sums, intervals."""

"""Published experiments run again: their values, ours, and whether they agree."""

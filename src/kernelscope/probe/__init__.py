"""What to watch in a running program, and what comes out: selection, observation, formats, files, checks."""

"""Random programs whose scheduled run, naive run and plain-Python run must agree."""

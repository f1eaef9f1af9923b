"""What every room may use: threads, extras, tracebacks, the terminal."""

"""The ground of every room: threads, extras, tracebacks, the terminal."""

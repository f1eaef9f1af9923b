"""One parallel program, recorded and replayed by three tools."""

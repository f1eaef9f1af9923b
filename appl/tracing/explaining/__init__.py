"""Explains where a run's time and money went, and how two runs differ."""

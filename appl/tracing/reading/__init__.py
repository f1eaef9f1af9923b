"""Recorded runs as values: whole, summed up, listed, or while they grow."""

"""Recorded runs answer new ones: replayed, resumed, run again after an edit, in other orders."""

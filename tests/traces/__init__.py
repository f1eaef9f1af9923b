"""Recorded runs of every format that was released, which every later version reads and replays."""

"""Waits for something outside of the process: people, times, the batches of a provider.

Invariant: a run ends as waiting only when nothing in it can go on by itself. What it waits for is
recorded before it ends, and the run that goes on asks for nothing that has come.
"""

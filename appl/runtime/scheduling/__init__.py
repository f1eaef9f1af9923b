"""Calls to backends: in which order, behind which prefixes, within which limits.

Invariant: nothing here knows a program; what is decided changes when a call is answered, never how.
"""

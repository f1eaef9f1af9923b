"""Modules of APPL 0.2 that exist for their import paths alone: ``appl.core``, ``appl.utils``.

Invariant: ``appl`` finds them here by its ``__path__``, and loads none that a program does not
import.
"""

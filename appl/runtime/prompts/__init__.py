"""Prompts of programs: statements, roles, compositors, places, conversations as values."""

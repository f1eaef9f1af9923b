"""What programs say: statements, roles, compositors, places, conversations as values."""

"""Tools: what a model is told, what reaches a function, and what is recorded of it."""

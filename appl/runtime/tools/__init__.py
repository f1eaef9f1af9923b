"""Tools that a model may call: their signatures, their runs, and the loop around them."""

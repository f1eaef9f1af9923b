"""Files that are damaged, or made to do harm, and what every reader of traces makes of them."""

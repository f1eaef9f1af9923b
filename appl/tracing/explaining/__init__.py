"""Where the time and the money of a run went, and what differs between two runs."""

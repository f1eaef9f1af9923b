"""What a trace is on disk: blocks, records, keys, and the file with its one writer."""

"""The format of a trace on disk: blocks, records, keys, and the file with its one writer."""

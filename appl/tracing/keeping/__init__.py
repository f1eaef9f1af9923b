"""Housekeeping of recorded runs: index, filters, retention, removal, sharing, import, checks."""

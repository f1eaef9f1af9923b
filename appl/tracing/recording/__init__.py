"""Runs are written down as they happen, without their secrets."""

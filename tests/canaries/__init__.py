"""Secrets that are looked for wherever a run leaves something behind."""

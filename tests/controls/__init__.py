"""Negative controls: what the tests of traces would say of a product without its safeguards."""

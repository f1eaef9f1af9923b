"""Embeddings: vectors of texts, asked for in batches, kept for the run and recorded.

Invariant: a text under one model and one number of dimensions is asked for once in a run, whoever
asks; nothing here is loaded by a program that asks for none.
"""

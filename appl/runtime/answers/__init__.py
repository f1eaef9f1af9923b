"""Answers of models: requests of ``gen``, texts, streams, types, continuations, choices."""

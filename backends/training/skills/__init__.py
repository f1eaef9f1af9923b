"""The skills that the shipped model is trained on: one module a skill, each a seeded sampler with its own checker."""

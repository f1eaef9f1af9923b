"""Recorded runs as values: whole, summed up, listed, or while they grow."""

from appl.base.lazy_names import names_of

__getattr__ = names_of(
    __name__,
    {
        "following": "Following",
        "reader": "StoredCall",
        "runs": "paths",
        "spans": "Span",
        "waits": "open_questions questions_in waits_in",
    },
)

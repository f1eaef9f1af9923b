"""Runs are written down as they happen, without their secrets."""

from appl.base.lazy_names import names_of

__getattr__ = names_of(
    __name__,
    {
        "cache": "CacheFile",
        "encoder": "EventEncoder",
        "piecewise_masking": "PiecewiseMasker",
        "privacy": "SHARED Veil",
        "writer": "Writer",
    },
)

"""Housekeeping of recorded runs: index, filters, retention, removal, sharing, import, checks."""

from appl.base.lazy_names import names_of

__getattr__ = names_of(
    __name__,
    {
        "retention": "Retention removals",
        "row": "RunRow row_of",
        "run_filter": "RunFilter",
        "shared_copy": "share",
        "verification": "verify",
    },
)

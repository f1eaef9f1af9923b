"""The format of a trace on disk: blocks, records, keys, and the file with its one writer."""

from appl.base.lazy_names import names_of

__getattr__ = names_of(
    __name__,
    {
        "block": "Scan scan",
        "block_file": "BlockFile",
        "failures": "FailureCounts",
        "keys": "RunKey",
        "record": "ANSWERED CANCELLED FAILED response_data response_from",
        "recorded_errors": "error_data",
        "sealing": "Sealer",
        "table": "KINDS MASKED REDACTED SEALED Content Kind PieceRecord chosen",
        "trust": "doubt",
    },
)

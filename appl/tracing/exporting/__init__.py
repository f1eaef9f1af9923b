"""Exports of recorded runs: OpenTelemetry, OpenInference, Chrome, Markdown."""

from appl.base.lazy_names import names_of

__getattr__ = names_of(
    __name__,
    {
        "checkpoint": "Checkpoint",
        "collector": "Collector",
        "delivery": "Courier Delivery Patience send",
        "live": "follow",
        "markdown": "lines",
        "spans": "Spans spans_of",
        "trajectories": "Trajectory WithoutIds row_lines tree_lines",
    },
)

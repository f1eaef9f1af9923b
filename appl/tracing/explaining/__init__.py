"""Explains where a run's time and money went, and how two runs differ."""

from appl.base.lazy_names import names_of

__getattr__ = names_of(
    __name__,
    {
        "caching": "CacheReport cache_report",
        "costs": "UsageSum",
        "critical": "Critical",
        "diff": "RunDifference compare",
        "moment_graph": "END START MomentGraph",
        "prediction": "Prediction Rehearsed prediction_of rehearsed_by",
        "rerun_report": "RerunReport",
        "run_overview": "RunOverview",
        "steps": "Steps phases",
    },
)

"""Recorded runs answer new ones: replayed, resumed, run again after an edit, in other orders."""

from appl.base.lazy_names import names_of

__getattr__ = names_of(
    __name__, {"fuzzer": "FAULTS Fuzzer Plan plan", "predictor": "BrokenOff", "tally": "Tally"}
)

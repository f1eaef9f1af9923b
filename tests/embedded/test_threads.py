"""The limit on BLAS threads holds inside, and nowhere else."""

from __future__ import annotations

import pytest

from appl_backends.embedded.blas_threads import BlasThreads, openblas


def test_the_setting_of_the_process_comes_back_also_when_limits_overlap() -> None:
    library = openblas()
    if library is None:
        pytest.skip("NumPy's BLAS is not its bundled OpenBLAS")
    get, _ = library
    before, (first, second) = get(), (BlasThreads(1), BlasThreads(1))
    first.__enter__()
    second.__enter__()
    first.__exit__()
    assert get() == 1
    second.__exit__()
    assert get() == before


def test_no_limit_changes_nothing() -> None:
    with BlasThreads(None):
        pass

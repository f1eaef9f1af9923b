"""Products in blocks are the products that NumPy computes from whole matrices."""

from __future__ import annotations

import numpy as np
import pytest

from appl_backends.embedded import products
from appl_backends.embedded.blas_threads import core_name, openblas
from appl_backends.embedded.products import Product, block_sizes, blocks_of, multiplied, rows_for


@pytest.fixture(params=[True, False], autouse=True)
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(products, "small_products", lambda: bool(request.param))
    return bool(request.param)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 30, 31, 60, 61, 62, 200])
@pytest.mark.parametrize("sizes", [(256, 512), (512, 256), (80, 500), (2048, 128)])
def test_rows_times_blocks_are_rows_times_the_matrix(count: int, sizes: tuple[int, int]) -> None:
    inputs, outputs = sizes
    rng = np.random.default_rng(count)
    weight = rng.standard_normal((outputs, inputs)).astype(np.float32)
    rows = rng.standard_normal((count, inputs)).astype(np.float32)
    expected = rows.astype(np.float64) @ weight.T.astype(np.float64)
    blocks = blocks_of(weight)
    assert np.abs(multiplied(rows, blocks) - expected).max() < 1e-3
    target = np.full((count, outputs), np.nan, np.float32)
    Product(rows, target).compute(blocks)
    assert np.abs(target - expected).max() < 1e-3


def test_only_what_small_kernels_take_is_in_blocks(small: bool) -> None:
    assert block_sizes(256, 512) == ((64, 61) if small else (512, 0))
    assert block_sizes(256, 500) == (500, 0) and block_sizes(2048, 512) == (512, 0)
    assert [rows_for(count) for count in (1, 2, 3)] == ([2, 2, 4] if small else [1, 2, 3])


def test_the_library_names_its_kernels() -> None:
    assert bool(core_name()) == (openblas() is not None)

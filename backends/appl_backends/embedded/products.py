"""Products of a few rows with the matrices of a model, as fast as the BLAS of NumPy can make them.

Invariant: how a product is divided depends on its sizes and on the BLAS alone, never on a clock.

OpenBLAS copies a whole matrix into another order before it multiplies, which takes as long as the
product where there are few rows. For processors with AVX-512 it has kernels for small products that
copy nothing, and they are fastest on blocks of columns that lie together: a product of 5 rows took
a third of its time, one of 256 rows nine tenths (measured, on matrices of 256 to 3072 columns).
With any other BLAS a matrix is one block.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from appl_backends.embedded.blas_threads import core_name

F32 = NDArray[np.float32]
COLUMNS, FEWEST_ROWS = 64, 16
SMALL = 1_000_000
"""The most multiplications of a product that OpenBLAS's kernels for small products take."""


@functools.cache
def small_products() -> bool:
    """True if NumPy's BLAS has kernels that multiply small matrices without copying them."""
    return core_name() in {"SkylakeX", "Cooperlake", "SapphireRapids"}


def block_sizes(inputs: int, outputs: int) -> tuple[int, int]:
    """The columns of a block of such a matrix, and the most rows to multiply it with at once.

    No rows stand for as many as there are: the matrix is one block.
    """
    rows = SMALL // (COLUMNS * inputs)
    if small_products() and outputs % COLUMNS == 0 and rows >= FEWEST_ROWS:
        return COLUMNS, rows
    return outputs, 0


def blocks_of(weight: F32) -> F32:
    """The matrix *weight*, ``[outputs, inputs]``, as ``[blocks, inputs, columns]``."""
    outputs, inputs = weight.shape
    columns, _ = block_sizes(inputs, outputs)
    shaped = weight.reshape(outputs // columns, columns, inputs)
    return np.ascontiguousarray(shaped.swapaxes(1, 2), dtype=np.float32)


def rows_for(count: int) -> int:
    """The rows that arrays should have for products of *count* rows; the others are zero.

    Products of two and of four rows are faster than those of one and of three.
    """
    return count + 1 if count in {1, 3} and small_products() else count


class Product:
    """The product of *source* with any matrix of one size, written to *target*."""

    __slots__ = ("_pieces", "_rest")

    def __init__(self, source: F32, target: F32) -> None:
        count, inputs = source.shape
        columns, rows = block_sizes(inputs, target.shape[1])
        blocks = target.shape[1] // columns
        whole = count - count % rows if rows and count > rows else 0
        self._pieces: tuple[F32, F32] | None = None
        self._rest: tuple[F32, F32] | None = None
        if whole:
            shaped = target[:whole].reshape(whole // rows, rows, blocks, columns)
            self._pieces = (
                source[:whole].reshape(whole // rows, rows, inputs),
                shaped.transpose(2, 0, 1, 3),
            )
        if whole < count:
            rest = target[whole:].reshape(count - whole, blocks, columns)
            self._rest = source[whole:], rest.swapaxes(0, 1)

    def compute(self, blocks: F32) -> None:
        """Multiply with the matrix that *blocks* are (see ``blocks_of``)."""
        if self._rest is not None:
            np.matmul(self._rest[0], blocks, self._rest[1])
        if self._pieces is not None:
            np.matmul(self._pieces[0], blocks[:, None], self._pieces[1])


def multiplied(source: F32, blocks: F32) -> F32:
    """The product of the rows of *source* with the matrix that *blocks* are."""
    count = len(source)
    rows = rows_for(count)
    if rows > count:
        padded = np.zeros((rows, source.shape[1]), np.float32)
        padded[:count] = source
        source = padded
    target = np.empty((rows, blocks.shape[0] * blocks.shape[2]), np.float32)
    Product(source, target).compute(blocks)
    return target[:count]

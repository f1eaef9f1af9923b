"""The radix cache keeps its invariants under any sequence of uses, and never gives wrong values."""

from __future__ import annotations

import numpy as np
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from appl_backends.embedded.cache import Hold
from appl_backends.embedded.model import KvRows, ModelShape, Row
from appl_backends.embedded.radix import BLOCK, RadixCache, common

SHAPE = ModelShape(
    layers=1, hidden=8, heads=1, kv_heads=1, head_dim=2, ffn=8, vocab=9, context=512,
    theta=10000.0, eps=1e-5,
)  # fmt: skip
BLOCKS = 24


def fill(row: Row, tokens: np.ndarray) -> None:
    """Write what stands for the keys and values of *tokens*: a hash of each prefix."""
    mark = 0.0
    for at, token in enumerate(tokens):
        mark = (mark * 31 + float(token) + 1) % 65521
        if at >= row.length:
            row.kv[:, :, at] = mark
    row.length = len(tokens)


def assert_filled(row: Row, tokens: np.ndarray) -> None:
    fresh = KvRows(SHAPE, max(1, len(tokens))).take(max(1, len(tokens)))
    assert fresh is not None
    fill(fresh, tokens)
    assert (row.kv[:, :, : len(tokens)] == fresh.kv[:, :, : len(tokens)]).all()


def array(tokens: list[int]) -> np.ndarray:
    return np.array(tokens, np.int32)


def opened(cache: RadixCache, tokens: list[int]) -> tuple[Hold, Row]:
    row = KvRows(SHAPE, 1024).take(1024)
    assert row is not None
    return cache.open(array(tokens), row), row


def put(cache: RadixCache, tokens: list[int]) -> None:
    """Open, compute, publish and close one sequence."""
    hold, row = opened(cache, tokens)
    fill(row, array(tokens))
    cache.publish(hold, array(tokens), row)
    cache.close(hold)


class Uses(RuleBasedStateMachine):
    """Any interleaving of opening, computing in pieces, publishing and closing."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = RadixCache(SHAPE, BLOCKS)
        self.open: list[tuple[Hold, Row, np.ndarray, str]] = []

    @rule(
        stems=st.lists(st.sampled_from(["a" * 20, "ab" * 9, "b", "c" * 37, "abc"]), max_size=4),
        tail=st.text("abc", max_size=40),
        space=st.sampled_from(["", "", "one", "other"]),
    )
    def start(self, stems: list[str], tail: str, space: str) -> None:
        tokens = array([ord(char) - 97 for char in "".join(stems) + tail + "a"])
        before = self.cache.match(tokens, space)
        row = KvRows(SHAPE, len(tokens)).take(len(tokens))
        assert row is not None
        hold = self.cache.open(tokens, row, space)
        assert hold.length == row.length == before
        assert_filled(row, tokens[:before])
        self.open.append((hold, row, tokens, space))

    @precondition(lambda self: self.open)
    @rule(pick=st.randoms(use_true_random=False), share=st.floats(0.0, 1.0))
    def compute(self, pick, share: float) -> None:
        hold, row, tokens, space = pick.choice(self.open)
        fill(row, tokens[: max(row.length, int(len(tokens) * share))])
        self.cache.publish(hold, tokens, row)
        assert hold.length <= row.length
        assert self.cache.match(tokens, space) >= hold.length

    @precondition(lambda self: self.open)
    @rule(pick=st.randoms(use_true_random=False))
    def finish(self, pick) -> None:
        used = self.open.pop(pick.randrange(len(self.open)))
        self.cache.close(used[0])

    @invariant()
    def the_tree_is_sound(self) -> None:
        self.cache.verify()

    @invariant()
    def what_is_held_is_not_evicted(self) -> None:
        for hold, _, tokens, space in self.open:
            assert self.cache.match(tokens, space) >= hold.length

    @invariant()
    def values_are_those_of_the_tokens_on_the_path(self) -> None:
        for hold, _, tokens, space in self.open:
            again = KvRows(SHAPE, len(tokens)).take(len(tokens))
            assert again is not None
            twin = self.cache.open(tokens[: hold.length], again, space)
            assert_filled(again, tokens[: hold.length])
            self.cache.close(twin)


TestUses = Uses.TestCase
TestUses.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


def test_a_prefix_is_found_token_by_token() -> None:
    cache = RadixCache(SHAPE, BLOCKS)
    put(cache, [1] * 37 + [2] * 5)
    put(cache, [1] * 37 + [3] * 9)
    assert cache.match(array([1] * 37 + [3] * 4 + [5])) == 41
    assert cache.match(array([1] * 36 + [7])) == 36
    assert cache.report().nodes == 3


def test_splitting_inside_a_block_shares_the_block() -> None:
    cache = RadixCache(SHAPE, BLOCKS)
    put(cache, [1] * BLOCK)
    before = cache.report().free_blocks
    put(cache, [1] * 5 + [2])
    assert cache.report().free_blocks == before - 1


def test_the_least_recently_used_leaf_goes_first() -> None:
    cache = RadixCache(SHAPE, 3)
    for token in (1, 2, 3):
        put(cache, [token] * BLOCK)
    cache.close(opened(cache, [1] * BLOCK)[0])
    put(cache, [4] * BLOCK)
    held = [cache.match(array([token] * BLOCK)) for token in (1, 2, 3, 4)]
    assert held == [BLOCK, 0, BLOCK, BLOCK]


def test_a_branch_goes_before_its_stem() -> None:
    cache = RadixCache(SHAPE, 3)
    put(cache, [1] * BLOCK + [2])
    put(cache, [1] * BLOCK + [3])
    put(cache, [4] * BLOCK)
    assert cache.match(array([1] * BLOCK + [3])) == BLOCK + 1
    assert cache.match(array([1] * BLOCK + [2])) == BLOCK


def test_what_is_in_use_stays_however_full_it_is() -> None:
    cache = RadixCache(SHAPE, 2)
    hold, row = opened(cache, [1] * 2 * BLOCK)
    fill(row, array([1] * 2 * BLOCK))
    cache.publish(hold, array([1] * 2 * BLOCK), row)
    put(cache, [2] * BLOCK)
    assert cache.match(array([2] * BLOCK)) == 0
    assert cache.report().protected == 2 * BLOCK
    cache.close(hold)
    put(cache, [2] * BLOCK)
    assert cache.match(array([2] * BLOCK)) == BLOCK


def test_a_sequence_longer_than_the_cache_keeps_its_beginning() -> None:
    cache = RadixCache(SHAPE, 2)
    put(cache, [1] * 5 * BLOCK)
    assert cache.match(array([1] * 5 * BLOCK)) == 2 * BLOCK


def test_the_common_prefix_of_arrays() -> None:
    cases = [([], [], 0), ([1], [], 0), ([1, 2], [1, 2], 2), ([1, 2], [1, 3], 1), ([2], [1], 0)]
    for a, b, expected in cases:
        assert common(array(a), array(b)) == expected


def test_stems_go_as_well_when_their_branches_do_not_suffice() -> None:
    cache = RadixCache(SHAPE, 3)
    put(cache, [1] * BLOCK)
    put(cache, [1] * BLOCK + [2] * BLOCK)
    put(cache, [4] * 3 * BLOCK)
    assert cache.match(array([4] * 3 * BLOCK)) == 3 * BLOCK and cache.report().nodes == 1


def test_spaces_share_memory_but_no_prefix() -> None:
    cache = RadixCache(SHAPE, 4)
    for space in ("", "one", "other"):
        row = KvRows(SHAPE, 64).take(64)
        assert row is not None
        tokens = array([1] * BLOCK)
        hold = cache.open(tokens, row, space)
        assert hold.length == 0
        fill(row, tokens)
        cache.publish(hold, tokens, row)
        cache.close(hold)
    assert cache.report().nodes == 3 and cache.report().free_blocks == 1
    put(cache, [2] * 3 * BLOCK)
    assert cache.match(array([1] * BLOCK)) == cache.match(array([1] * BLOCK), "one") == 0
    assert cache.match(array([1] * BLOCK), "other") == BLOCK
    cache.verify()

"""The profile of a backend in the header of a trace."""

from __future__ import annotations

import pytest

from appl.backend import FEATURES, Profile
from appl.tracing import profile_data, profile_from
from appl_backends import embedded, litellm
from appl_backends.openai import servers
from appl_backends.sglang import client

STATED = frozenset().union(
    embedded.FEATURES, litellm.FEATURES, client.DRAFTING, *servers.FEATURES.values()
)


def test_the_features_are_those_that_the_backends_state() -> None:
    """``schema_object`` is none of them: it says what a backend cannot do."""
    assert STATED - {"schema_object"} == FEATURES


@pytest.mark.parametrize("data", [None, "a word", {}])
def test_a_header_that_lists_no_features_allows_all_and_takes_none_away(data: object) -> None:
    assert profile_from(data).features == FEATURES


def test_a_profile_is_read_as_it_was_written() -> None:
    profile = Profile(
        "x", frozenset({"choices", "schema_object"}), frozenset({"top_k"}), ("a",), "a"
    )
    assert profile_from(profile_data(profile)) == profile

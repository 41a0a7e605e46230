"""Column sets as text, both directions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from umma_probe.errors import RecordError
from umma_probe.record.sets import format_set, parse_set


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ([], ""),
        ([5], "5"),
        ([0, 1, 2, 31], "0-2,31"),
        ([*range(32), *range(36, 48)], "0-31,36-47"),
        ([3, 2, 2, 1], "1-3"),
    ],
)
def test_text(members: list[int], text: str) -> None:
    assert format_set(members) == text


@settings(derandomize=True, max_examples=80)
@given(st.sets(st.integers(0, 511)))
def test_round_trip(members: set[int]) -> None:
    assert parse_set(format_set(members)) == sorted(members)


@pytest.mark.parametrize("text", ["a", "1-", "1,,x", "-3", "4-a"])
def test_what_is_no_set_is_refused(text: str) -> None:
    with pytest.raises(RecordError, match="must be like"):
        parse_set(text)

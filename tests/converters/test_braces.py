"""Test braces in names."""

from __future__ import annotations

import pytest

from datafeed.converters.braces import expand
from datafeed.errors import ConfigError


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a.tar", ["a.tar"]),
        ("a-{008..011}.tar", ["a-008.tar", "a-009.tar", "a-010.tar", "a-011.tar"]),
        ("{2..0}", ["2", "1", "0"]),
        ("{a,b}-{0..1}", ["a-0", "a-1", "b-0", "b-1"]),
        ("{,x}y", ["y", "xy"]),
        ("{one}{}{1..}", ["{one}{}{1..}"]),
        ("s3://b/{train,val}/*.tar", ["s3://b/train/*.tar", "s3://b/val/*.tar"]),
    ],
)
def test_groups_expand_as_in_a_shell(pattern: str, names: list[str]) -> None:
    """Ranges keep their digits, several groups multiply, other braces stand for themselves."""
    assert expand(pattern) == names


@pytest.mark.parametrize("pattern", ["{0..1000000}", "{0..2000}{0..2000}"])
def test_more_names_than_anybody_means_are_refused(pattern: str) -> None:
    """Before they are made."""
    with pytest.raises(ConfigError, match="more than"):
        expand(pattern)

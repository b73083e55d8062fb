"""Test sizes as people write them."""

from __future__ import annotations

import pytest

from datafeed.errors import ConfigError
from datafeed.sizes import counted, format_size, parse_size, some


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        (1, 1),
        ("4096", 4096),
        ("100MB", 100_000_000),
        ("100 mb", 100_000_000),
        (" 256KiB ", 262_144),
        ("1.5GB", 1_500_000_000),
        ("0.5kib", 512),
        ("2PiB", 2**51),
        ("7B", 7),
    ],
)
def test_parse_size_takes_decimal_and_binary_units(text: str | int, nbytes: int) -> None:
    """In any case, with a fraction, with spaces around."""
    assert parse_size(text) == nbytes


@pytest.mark.parametrize("text", ["", "MB", "1.MB", "-1", "1e6", "1 M", "1MBit", "ten", "1,5GB", -5])
def test_parse_size_refuses_what_is_no_size(text: str | int) -> None:
    """The error names the option and what was found, and shows how to write one."""
    with pytest.raises(ConfigError, match=r"shard_size .* is no size: write it as 100MB"):
        parse_size(text, name="shard_size")


@pytest.mark.parametrize("text", [0, "0", "0.4B", "0GB"])
def test_parse_size_refuses_less_than_a_byte(text: str | int) -> None:
    """Nothing can be cut to nothing."""
    with pytest.raises(ConfigError, match="size must be at least one byte"):
        parse_size(text)


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1_500_000, "1.5 MB"), (2e12, "2.0 TB"), (3e15, "3.0 PB")],
)
def test_format_size_takes_the_largest_unit(nbytes: float, text: str) -> None:
    """One decimal from kB on."""
    assert format_size(nbytes) == text
    assert parse_size(format_size(max(nbytes, 1))) == max(nbytes, 1)


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        (0, "shard", "0 shards"),
        (1, "shard", "1 shard"),
        (2, "bad item", "2 bad items"),
        (1, "entry", "1 entry"),
        (1000, "entry", "1,000 entries"),
        (1, "class", "1 class"),
        (3, "class", "3 classes"),
    ],
)
def test_counted_takes_the_plural_that_fits(count: int, noun: str, text: str) -> None:
    """One is one."""
    assert counted(count, noun) == text


def test_some_says_how_many_more_there_are() -> None:
    """Nothing is said of none."""
    assert some(["a"], 1) == "a"
    assert some(["a", "b", "c"], 1) == "a and 2 more"
    assert some(["a", "b"]) == "a, b"

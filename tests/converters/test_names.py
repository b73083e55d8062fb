"""Test how names of any bytes are shown."""

from __future__ import annotations

import os

import pytest

from datafeed.converters.names import escape, shown


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        (b"plain.csv", "plain.csv", "plain.csv"),
        ("é🦙".encode(), "é🦙", "é🦙"),
        (b"a\xffb", "a\\xffb", "a\\xffb"),
        (b"two\nlines", "two\nlines", "'two\\nlines'"),
    ],
)
def test_name_becomes_valid_text_and_one_line(name: bytes, text: str, line: str) -> None:
    """Bytes that are no UTF-8 are escaped; what cannot be printed is, for messages."""
    assert escape(os.fsdecode(name)) == text
    assert shown(os.fsdecode(name)) == line

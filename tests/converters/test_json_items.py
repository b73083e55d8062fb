"""Test reading one large JSON object item by item."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datafeed.converters import json_items as module
from datafeed.converters.json_items import json_items

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


class Dripping(io.BytesIO):
    """Give a few bytes at a time, whatever is asked for."""

    def read(self, size: int | None = -1) -> bytes:
        """Read three bytes at most."""
        return super().read(3 if size else size)


@given(st.dictionaries(st.text(max_size=4), VALUES, max_size=4), st.sampled_from([None, 1]))
def test_items_are_those_of_the_whole_object(found: dict[str, object], indent: int | None) -> None:
    """However the bytes arrive: within numbers, escapes and letters of several bytes."""
    expected: list[tuple[str, int, object]] = []
    for name, value in found.items():
        expected += [(name, number, item) for number, item in enumerate(value)] if isinstance(value, list) else []
        expected += [] if isinstance(value, list) else [(name, -1, value)]
    for ascii_only in (True, False):
        data = json.dumps(found, indent=indent, ensure_ascii=ascii_only).encode()
        assert list(json_items(io.BytesIO(b"\xef\xbb\xbf" + data + b" \n"))) == expected
        assert list(json_items(Dripping(data))) == expected


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "character 0: expected '{', found the end"),
        (b"[1]", "character 0: expected '{', found '['"),
        (b'{"a": [1, 2', "character 11: expected ',' or ']', found the end"),
        (b'{"a": [1, 2] "b"', "character 13: expected ',' or '}', found '\"'"),
        (b'{"a": [1, oh]}', "character 10: Expecting value"),
        (b'{"a": "oh', "character 6: Unterminated string"),
        (b"{1: 2}", "expected a name in quotes, found 1"),
        (b'{"a": \xff}', "invalid start byte"),
        (b'{"a": ' + b"[" * 99 + b"{" * 100_000, "nested too deep|Expecting"),
    ],
)
def test_what_is_no_whole_object_is_told_with_its_place(data: bytes, reason: str) -> None:
    """Never a shorter list in silence."""
    with pytest.raises(ValueError, match=reason.replace("[", r"\[").replace("{", r"\{")):
        list(json_items(io.BytesIO(data)))


def test_an_item_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of gigabytes that is no JSON is not read whole."""
    monkeypatch.setattr(module, "_ITEM_CHARS", 2**22)
    file = io.BytesIO(b'{"a": "' + b"x" * 2**25)
    with pytest.raises(ValueError, match="Unterminated string"):
        list(json_items(file))
    assert file.tell() < 2**24

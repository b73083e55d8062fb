"""Read one large JSON object item by item.

What is held at once is one item of one of its lists, however many there are.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import BinaryIO

_STEP_NBYTES = 2**20
_ITEM_CHARS = 2**28  # the longest item, so that a file that is no JSON is not read whole to say so
_SPACE = " \t\n\r"


def json_items(file: BinaryIO) -> Iterator[tuple[str, int, object]]:
    """Yield what an object holds.

    Args:
        file: Its bytes, UTF-8, from front to back.

    Yields:
        For each item of each list of the object: the list's name, the item's number, and the item; any other value with
        -1 for its number.

    Raises:
        ValueError: It is no whole object, or holds an item too long; the message says where.
    """
    text = _Text(file)
    text.expect("{")
    if text.peek() == "}":
        return
    while True:
        name = text.value()
        if not isinstance(name, str):
            raise ValueError(f"{text.place}: expected a name in quotes, found {name!r:.40}")  # noqa: TRY004  (of the file, not of an argument)
        text.expect(":")
        if text.peek() == "[":
            yield from ((name, number, item) for number, item in enumerate(_items(text)))
        else:
            yield name, -1, text.value()
        if text.expect(",}") == "}":
            return


def _items(text: _Text) -> Iterator[object]:
    text.expect("[")
    if text.peek() == "]":
        text.expect("]")
        return
    while True:
        yield text.value()
        if text.expect(",]") == "]":
            return


class _Text:
    """Decode a file as far as it is needed."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._parse = json.JSONDecoder().raw_decode
        self._text = ""
        self._at = 0
        self._before = 0
        self._ended = False

    @property
    def place(self) -> str:
        """Where reading stands."""
        return f"character {self._before + self._at:,}"

    def peek(self) -> str:
        """Return the next character that is no space; nothing at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _SPACE:
                    return self._text[self._at]
                self._at += 1
            if self._ended:
                return ""
            self._more()

    def expect(self, signs: str) -> str:
        """Pass over the next character, which must be one of some.

        Raises:
            ValueError: It is none of them.
        """
        found = self.peek()
        if not found or found not in signs:
            wanted = " or ".join(map(repr, signs))
            raise ValueError(f"{self.place}: expected {wanted}, found {repr(found) if found else 'the end'}")
        self._at += 1
        return found

    def value(self) -> object:
        """Return the value that comes next.

        Raises:
            ValueError: It is none, or too long.
        """
        self.peek()
        while True:
            try:
                value, end = self._parse(self._text, self._at)
            except json.JSONDecodeError as exc:
                if self._ended or len(self._text) - self._at > _ITEM_CHARS:
                    raise ValueError(f"{self.place}: {exc.msg}") from exc
            except RecursionError as exc:
                raise ValueError(f"{self.place}: nested too deep") from exc
            else:
                if end + 2 < len(self._text) or self._ended:  # else "1e+" might go on
                    self._at = end
                    return value
            self._more()

    def _more(self) -> None:
        self._text = self._text[self._at :]
        self._before += self._at
        self._at = 0
        data = self._file.read(max(_STEP_NBYTES, len(self._text)))
        self._ended = not data
        self._text += self._decode(data, final=not data)

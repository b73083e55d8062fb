"""Learn from the messages of an Arrow IPC file or stream where its record batches lie and what they count.

Of each message only the header is read: it holds the rows, and the nulls of each column.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from datafeed.converters.flatbuffer import Table

MAGIC = b"ARROW1"
FEATHER_V1 = b"FEA1"
_MARK = b"\xff\xff\xff\xff"  # before the length of a header, since Arrow 0.15
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
_BLOCK = struct.Struct("<qi4xq")
_LARGEST_HEADER = 2**28

Span = tuple[int, int]
"""Where something begins and ends in its file."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Describe a record batch.

    Args:
        number: Its number among the file's record batches.
        span: Where its message lies.
        rows: Its rows.
        before: How many dictionaries stand before it.
    """

    number: int
    span: Span
    rows: int
    before: int


@dataclass(slots=True)
class Layout:
    """Hold where a file's messages lie.

    Attributes:
        stream: Whether it is a stream, without a footer.
        schema: The message of the schema.
        batches: The record batches, in order.
        dictionaries: The messages of dictionaries, in order.
        nulls: Whether any batch counts nulls in a node: a field, its children after it, in the schema's order.
        null_words: Whether a dictionary holds nulls.
        packed: Whether the batches are compressed.
        broken: Why nothing can be read after the last batch; empty where the file is whole.
    """

    stream: bool
    schema: Span = (0, 0)
    batches: list[Batch] = field(default_factory=list)
    dictionaries: list[Span] = field(default_factory=list)
    nulls: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    null_words: bool = False
    packed: bool = False
    broken: str = ""

    def add(self, header: Table, span: Span) -> None:
        """Take a message into account.

        Raises:
            ValueError: It is damaged, or of a kind that tables do not have.
        """
        kind, inner = header.number(1, "B"), header.table(2)
        if kind == _SCHEMA and self.schema == (0, 0):
            self.schema = span
        elif kind == _DICTIONARY and inner is not None:
            words = inner.table(1)
            self.null_words = self.null_words or (words is not None and bool(_nulls(words).any()))
            self.dictionaries.append(span)
        elif kind == _BATCH and inner is not None and self.schema != (0, 0):
            self._add_batch(inner, span)
        else:
            raise ValueError(f"expected a schema, dictionary or record batch, found a message of type {kind}")

    def _add_batch(self, batch: Table, span: Span) -> None:
        nulls = _nulls(batch)
        if not self.batches:
            self.nulls = nulls
        elif len(nulls) != len(self.nulls):
            raise ValueError(f"expected {len(self.nulls)} columns in a record batch, found {len(nulls)}")
        self.nulls = self.nulls | nulls
        self.packed = self.packed or batch.table(3) is not None
        rows = batch.number(0, "q")
        if rows < 0:
            raise ValueError(f"a record batch says that it has {rows} rows")
        self.batches.append(Batch(len(self.batches), span, rows, len(self.dictionaries)))


def _nulls(batch: Table) -> npt.NDArray[np.bool_]:
    counts = np.frombuffer(batch.structs(1, 16), np.dtype("<i8")).reshape(-1, 2)[:, 1]
    return np.not_equal(counts, 0, dtype=np.bool_)


def layout_of(file: BinaryIO, nbytes: int) -> Layout:
    """Read the headers of a file's messages.

    Args:
        file: The file.
        nbytes: Its size.

    Returns:
        Where they lie. A stream that is cut or damaged has a layout up to there.

    Raises:
        ValueError: It is no Arrow file, or its footer is damaged.
        OSError: It cannot be read.
    """
    head = file.read(len(MAGIC))
    if head == MAGIC:
        return _by_footer(file, nbytes)
    if head[:4] == FEATHER_V1:
        raise ValueError("it is Feather version 1: write it anew with pyarrow.feather.write_feather")
    return _by_walk(file, nbytes)


def _by_footer(file: BinaryIO, nbytes: int) -> Layout:
    end = _at(file, max(nbytes - 10, 0), 10)
    size = int.from_bytes(end[:4], "little")
    if end[4:] != MAGIC or size > nbytes - 10:
        raise ValueError("it has no footer: it was not written to its end, or is cut")
    footer = Table.root(_at(file, nbytes - 10 - size, size))
    layout = Layout(stream=False)
    layout.add(*_header(file, 8, nbytes))
    for blocks in (footer.structs(2, _BLOCK.size), footer.structs(3, _BLOCK.size)):
        for start, header_nbytes, body_nbytes in _BLOCK.iter_unpack(blocks):
            header, (_, after) = _header(file, start, nbytes)
            if after != start + header_nbytes + body_nbytes:
                raise ValueError(f"its footer and the message at byte {start} differ in the message's size")
            layout.add(header, (start, after))
    return layout


def _by_walk(file: BinaryIO, nbytes: int) -> Layout:
    layout = Layout(stream=True)
    at = 0
    try:
        for header, span in _walk(file, nbytes):
            layout.add(header, span)
            at = span[1]
    except ValueError as exc:
        if layout.schema == (0, 0):
            raise ValueError(f"it is no Arrow file or stream: {exc}") from exc
        layout.broken = f"nothing can be read from byte {at} on: {exc}"
    return layout


def _walk(file: BinaryIO, nbytes: int) -> Iterator[tuple[Table, Span]]:
    at = 0
    while at < nbytes:
        start = _at(file, at, 8)
        if start in (_MARK + bytes(4), bytes(8)) or (nbytes - at == 4 and start == bytes(4)):
            return
        header, span = _header(file, at, nbytes)
        yield header, span
        at = span[1]


def _header(file: BinaryIO, start: int, nbytes: int) -> tuple[Table, Span]:
    """Return a message's header, and where the message lies."""
    head = _at(file, start, 8)
    prefix = 8 if head[:4] == _MARK else 4
    size = int.from_bytes(head[prefix - 4 : prefix], "little")
    if not 0 < size <= min(nbytes - start - prefix, _LARGEST_HEADER):
        raise ValueError(f"expected the header of a message at byte {start}")
    table = Table.root(_at(file, start + prefix, size))
    body = table.number(3, "q")
    end = start + prefix + size + body
    if body < 0 or end > nbytes:
        raise ValueError(f"the message at byte {start} ends at byte {end}, the file at byte {nbytes}")
    return table, (start, end)


def _at(file: BinaryIO, start: int, nbytes: int) -> bytes:
    file.seek(start)
    return file.read(nbytes)


def prefix_of(layout: Layout, batch: Batch) -> Sequence[Span]:
    """Return the messages of a stream that must be read before a record batch: the schema and the dictionaries."""
    return [layout.schema, *layout.dictionaries[: batch.before]]

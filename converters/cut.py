"""Cut a stream of chunks into blocks of framed records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from datafeed._native import Encoder
from datafeed.columns import Column
from datafeed.converters.source import Chunk, OnBad
from datafeed.errors import BadItem, RecordTooLarge, SchemaError
from datafeed.schema import Feature


@dataclass(frozen=True, slots=True)
class Raw:
    """Hold a block before it is compressed.

    Args:
        raw: Framed records, end to end.
        records: How many.
    """

    raw: bytes
    records: int


def cut_blocks(
    encoder: Encoder, features: Sequence[Feature], chunks: Iterable[Chunk], block_size: int, on_bad: OnBad
) -> Iterator[Raw]:
    """Cut blocks: each takes records until one more would pass `block_size`, at least one, across chunk borders.

    Args:
        encoder: Encodes the features.
        features: What a record holds, in order.
        chunks: The samples.
        block_size: Raw bytes.
        on_bad: What to do with a record past the format's limit.

    Yields:
        The blocks; only the last may have room for another record.

    Raises:
        SchemaError: A chunk lacks a feature or has it in another form; the message names the place.
    """
    parts: list[bytes] = []
    nbytes = records = 0
    for chunk in chunks:
        columns = [chunk.columns[feature.name] for feature in features]
        start = 0
        while start < chunk.rows:
            room = max(block_size - nbytes, 1)
            framed, count, full = _encode(encoder, columns, chunk, (start, room), on_bad)
            start += max(count, 1)  # none: one record was passed over
            fits = nbytes + len(framed) <= block_size
            if parts and not fits:
                yield Raw(b"".join(parts), records)
                parts, nbytes, records = [], 0, 0
            if count:
                parts.append(framed)
                nbytes += len(framed)
                records += count
            if full and fits:
                yield Raw(b"".join(parts), records)
                parts, nbytes, records = [], 0, 0
    if parts:
        yield Raw(b"".join(parts), records)


def _encode(
    encoder: Encoder, columns: Sequence[Column], chunk: Chunk, at: tuple[int, int], on_bad: OnBad
) -> tuple[bytes, int, bool]:
    """Return framed records, how many, and whether another one waits that had no room."""
    start, room = at
    stop = chunk.rows
    try:
        framed, count = encoder.encode(columns, start, stop, room)
    except RecordTooLarge as exc:
        stop = max(exc.row, start)
        if stop == start:
            _pass_over(chunk, exc, on_bad)
            return b"", 0, False
        framed, count = encoder.encode(columns, start, stop, room)
    except SchemaError as exc:
        raise SchemaError(f"{chunk.where(max(exc.row, start))}: {exc.reason}", exc.row, exc.feature) from exc
    return framed, count, start + count < stop


def _pass_over(chunk: Chunk, error: RecordTooLarge, on_bad: OnBad) -> None:
    item = BadItem(chunk.where(error.row), f"{error}; the limit is 2**31 - 1 bytes a record: split it")
    try:
        on_bad(item)
    except BadItem:
        raise RecordTooLarge(str(item), error.row, error.feature) from error

"""Parse the records of a piece, handing on those that do not fit."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from datafeed._native import Block, Encoder, Parser
from datafeed.columns import Array, Column
from datafeed.converters.record_pieces import Piece
from datafeed.converters.sequence_wire import has_steps
from datafeed.converters.source import OnBad
from datafeed.errors import BadItem, CorruptRecord, SchemaError
from datafeed.infer import infer_schema
from datafeed.schema import Feature

_NO_LIMIT = 2**62
Run = tuple[dict[str, Column], Sequence[int]]
"""Columns, and the rows of the piece that they hold."""


@dataclass(frozen=True, slots=True)
class Places:
    """Say where the records of a piece come from.

    Args:
        path: The file, as it is shown.
        piece: The piece.
        parsed: The same rows as the tf.train.Examples to be parsed; None where the piece holds these.
    """

    path: str
    piece: Piece
    parsed: Piece | None = None

    def of(self, row: int) -> str:
        """Return the place of one record."""
        return f"{self.path}: record {self.piece.first + row}, byte {self.piece.offset + self.piece.starts[row]}"

    def among(self, rows: Sequence[int]) -> Callable[[int], str]:
        """Return what gives the place of the i-th of some rows."""
        return lambda number: self.of(rows[number])

    def item(self, row: int, reason: str) -> BadItem:
        """Return the bad item that a record is."""
        return BadItem(self.of(row), reason, bytes(self.piece.payload(row)))


def sound_rows(places: Places, on_bad: OnBad) -> Sequence[int]:
    """Return the rows whose payload has the right CRC; the others go to `on_bad`."""
    piece = places.piece
    try:
        Block(piece.raw, len(piece), check_payload=True)
    except CorruptRecord:
        sound = [row for row in range(len(piece)) if piece.is_sound(row)]
        for row in sorted(set(range(len(piece))).difference(sound)):
            on_bad(places.item(row, "the CRC of its data is wrong"))
        return sound
    return range(len(piece))


class Reader:
    """Parse records to some features.

    Args:
        features: What they hold.
        check_names: Whether a record with any other feature is a bad item; otherwise the feature is left out.
    """

    def __init__(self, features: Sequence[Feature], *, check_names: bool) -> None:
        self._names = [feature.name for feature in features]
        self._texts = [number for number, feature in enumerate(features) if feature.dtype == "utf8"]
        self._parser = Parser(features)
        self._encoder = Encoder(features) if check_names else None

    def runs(self, places: Places, rows: Sequence[int], on_bad: OnBad) -> Iterator[Run]:
        """Yield runs of rows that fit; the others go to `on_bad`.

        Args:
            places: The piece, and where it comes from.
            rows: Those of its rows that are wanted.
            on_bad: Takes the bad items.
        """
        piece = places.parsed or places.piece
        block = Block(piece.raw)
        while rows:
            columns, stop, reason = self._first_run(block, rows)
            if columns is None:
                on_bad(places.item(rows[0], reason))
                rows = rows[1:]
                continue
            run = rows[:stop]
            odd = self._odd(piece, run, columns) | self._no_text(run, columns)
            for row, why in odd.items():
                on_bad(places.item(row, why))
            if odd:
                run = [row for row in run if row not in odd]
                columns = self._parse(block, run)
            if run:
                yield dict(zip(self._names, columns, strict=True)), run
            rows = rows[stop:]

    def _first_run(self, block: Block, rows: Sequence[int]) -> tuple[list[Column] | None, int, str]:
        """Parse rows up to the first that does not fit; None, and the reason, where that is the first of all."""
        stop, reason = len(rows), ""
        while stop:
            try:
                return self._parse(block, rows[:stop]), stop, reason
            except SchemaError as exc:
                if exc.row < 0:
                    raise
                stop, reason = exc.row, str(exc)
        return None, 0, reason

    def _parse(self, block: Block, rows: Sequence[int]) -> list[Column]:
        return self._parser.parse([block], np.zeros(len(rows), np.int32), np.array(rows, np.int32))

    def _odd(self, piece: Piece, rows: Sequence[int], columns: Sequence[Column]) -> dict[int, str]:
        """Return the rows that have another feature: parsed and written again they take fewer bytes.

        Records in another form than the encoder's (lists that are not packed, say) differ too, and are looked at one by
        one, some thousand a second.
        """
        if self._encoder is None:
            return {}
        framed, _ = self._encoder.encode(columns, 0, len(rows), _NO_LIMIT)
        if len(framed) == sum(piece.starts[row + 1] - piece.starts[row] for row in rows):
            return {}
        reasons = {row: _surplus(piece.payload(row), self._names) for row in rows}
        return {row: reason for row, reason in reasons.items() if reason}

    def _no_text(self, rows: Sequence[int], columns: Sequence[Column]) -> dict[int, str]:
        """Return the rows with text that is no UTF-8."""
        return {
            rows[place]: f"feature {self._names[number]!r}: it is text in the first records, and no UTF-8 here"
            for number in self._texts
            for place in _not_utf8(columns[number])
        }


def _surplus(record: memoryview, names: Sequence[str]) -> str:
    """Say what a record has beside some features; empty for nothing."""
    others = {feature.name for feature in infer_schema([record])}.difference(names)
    if others:
        return f"it has the feature {min(others)!r}, which the first records lack"
    try:
        return "it has feature lists, which the first records lack" if has_steps(bytes(record)) else ""
    except SchemaError as exc:
        return str(exc)


def _not_utf8(column: Column) -> list[int]:
    """Return the rows of a column of text that are no UTF-8."""
    starts = column.offsets if column.inner is None else column.inner
    assert column.offsets is not None
    assert starts is not None
    values = column.values.view(np.uint8)
    heads = values[starts[:-1][np.diff(starts) > 0]]
    if _is_utf8(values) and not (heads & 0xC0 == 0x80).any():  # no character is cut between two values
        return []
    ends = starts.tolist()
    wrong = [place for place, (start, end) in enumerate(itertools.pairwise(ends)) if not _is_utf8(values[start:end])]
    rows = wrong if column.inner is None else np.searchsorted(column.offsets, wrong, side="right") - 1
    return sorted({int(row) for row in rows})


def _is_utf8(values: Array) -> bool:
    try:
        str(values.data, "utf-8")
    except UnicodeDecodeError:
        return False
    return True

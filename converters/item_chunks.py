"""Make chunks of items, passing over those that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from datafeed.converters.item_fields import Faults, Field, Places, Values
from datafeed.converters.item_table import Piece
from datafeed.converters.source import Chunk, OnBad
from datafeed.errors import BadItem


def chunk_of(
    fields: Sequence[Field],
    split: tuple[Sequence[Values], Faults],
    piece: Piece,
    where: Callable[[int], str],
    on_bad: OnBad,
) -> Chunk | None:
    """Make a chunk.

    Args:
        fields: What reads each field.
        split: The fields of the items of a piece, and the items that could not be split, with the reason.
        piece: The items.
        where: Where item i of the file stands.
        on_bad: Takes the items that do not fit.

    Returns:
        The others; None where there is none.
    """
    values, broken = split
    bad = dict(broken)
    rows = np.setdiff1d(np.arange(len(piece)), list(bad))
    for field, found in zip(fields, values, strict=True):
        for row, reason in field.faults(found.only(rows) if broken else found).items():
            bad.setdefault(int(rows[row]), f"{field.feature.name!r}: {reason}")
    for row in sorted(bad):
        start, end = piece.offsets[row], piece.offsets[row + 1]
        on_bad(BadItem(where(piece.first + row), bad[row], piece.data[start:end].tobytes()))
    rows = np.setdiff1d(np.arange(len(piece)), list(bad))
    if not len(rows):
        return None
    columns = {
        field.feature.name: field.column(found.only(rows) if bad else found)
        for field, found in zip(fields, values, strict=True)
    }
    return Chunk(columns, len(rows), where=_among(rows + piece.first, where))


def _among(items: Places, where: Callable[[int], str]) -> Callable[[int], str]:
    return lambda row: where(int(items[row]))

"""Read files that are an item each, handing on those that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from datafeed.converters.files import Files
from datafeed.converters.names import shown
from datafeed.converters.source import OnBad, Stamp
from datafeed.errors import BadItem
from datafeed.framing import LARGEST_NBYTES

Facts = TypeVar("Facts")


def read_items(
    files: Files, stamps: Sequence[Stamp], look: Callable[[bytes], Facts], on_bad: OnBad
) -> Iterator[tuple[int, bytes, Facts]]:
    """Read whole files and look at each.

    Args:
        files: What reaches them.
        stamps: The files.
        look: Returns what is known of a file by its bytes; a ValueError says why it is a bad item.
        on_bad: Takes the bad items.

    Yields:
        The number, the bytes and the facts of each file that is good.

    Raises:
        SourceChanged: A file has another size than it was listed with.
        BadItem: Whatever `on_bad` raises.
    """
    rows = [row for row, file in enumerate(stamps) if _fits(file, on_bad)]
    for row, data in zip(rows, files.read_all([stamps[row] for row in rows]), strict=True):
        if isinstance(data, OSError):
            on_bad(BadItem(shown(stamps[row].path), f"cannot be read: {data.strerror or data}"))
            continue
        try:
            facts = look(data)
        except ValueError as exc:
            on_bad(BadItem(shown(stamps[row].path), str(exc), data))
            continue
        yield row, data, facts


def _fits(file: Stamp, on_bad: OnBad) -> bool:
    if file.nbytes > LARGEST_NBYTES:
        on_bad(BadItem(shown(file.path), f"expected at most {LARGEST_NBYTES:,} bytes, found {file.nbytes:,}"))
    return file.nbytes <= LARGEST_NBYTES

"""Tell whether the files of a unit are still as they were listed."""

from __future__ import annotations

import os

from datafeed.converters.source import Unit
from datafeed.errors import SourceChanged


def check_unchanged(unit: Unit) -> None:
    """Compare every file of a unit with its stamp.

    Args:
        unit: The unit; its files are local paths.

    Raises:
        SourceChanged: One has another size or time of change, or is gone.
    """
    for stamp in unit.files:
        try:
            found = os.stat(stamp.path)
        except FileNotFoundError as exc:
            raise SourceChanged(f"{stamp.path!r} was listed, and is gone: {_NEXT}") from exc
        if found.st_size != stamp.nbytes or found.st_mtime_ns != stamp.mtime_ns:
            raise SourceChanged(
                f"{stamp.path!r} changed while it was converted: listed with {stamp.nbytes} bytes and mtime_ns "
                f"{stamp.mtime_ns}, found {found.st_size} and {found.st_mtime_ns}: {_NEXT}"
            )


_NEXT = "let nothing write to the source, then convert it anew to an empty destination"

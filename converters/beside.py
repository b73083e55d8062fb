"""Read files that a table names in place of their bytes, where they lie in the table's own folder."""

from __future__ import annotations

import os
from collections.abc import Sequence

from datafeed.converters.files import Files
from datafeed.converters.names import shown
from datafeed.converters.source import Stamp
from datafeed.errors import SourceError
from datafeed.storage import local_path

_ADVICE = "embed the files, as datasets' save_to_disk and to_parquet do, or leave the column out (--columns)"


def find(files: Files, table: str, name: str) -> Stamp | str:
    """Look at a file that a table names.

    Args:
        files: What reaches it.
        table: The table's path or URL.
        name: The file as the table names it: a path, absolute or relative to the table's folder.

    Returns:
        The file; or why it is not read: it is not there, or not within that folder.
    """
    path = _within(table, name)
    if path is None:
        return f"which is not in the folder of {shown(table)}: {_ADVICE}"
    try:
        return files.stamp(path)
    except (OSError, SourceError) as exc:
        return f"which cannot be read: {exc}: {_ADVICE}"


def _within(table: str, name: str) -> str | None:
    """Return the path or URL of a file that a table names; None where it is not in the table's folder."""
    if "://" in name or "::" in name or "\0" in name:
        return None
    local = local_path(table)
    if local is not None:
        folder = os.path.realpath(os.path.dirname(local))
        path = os.path.realpath(os.path.join(folder, name))
        return path if path.startswith(os.path.join(folder, "")) else None
    folder, slash, _ = table.rpartition("/")
    parts = name.split("/")
    return None if "::" in table or ".." in parts or parts[0] == "" else folder + slash + name


def read(files: Files, found: Sequence[Stamp | str]) -> list[bytes | str]:
    """Return the bytes of files, or why each is not read.

    Raises:
        SourceChanged: One has another size than it was looked at with.
    """
    stamps = [one for one in found if isinstance(one, Stamp)]
    data = iter(files.read_all(stamps) if stamps else [])
    read = [next(data) if isinstance(one, Stamp) else one for one in found]
    return [f"which cannot be read: {one.strerror or one}" if isinstance(one, OSError) else one for one in read]

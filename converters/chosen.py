"""List the files of a kind among others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from datafeed.converters.files import Files
from datafeed.converters.source import Stamp, Where, each


def chosen(files: Files, where: Where, choose: Callable[[Sequence[Stamp]], Sequence[Stamp]]) -> tuple[list[Stamp], int]:
    """Return the files that are meant, each once, and how many others lie in the folders.

    Args:
        files: What reaches them.
        where: Paths and URLs; a file named directly or by a pattern counts whatever its name.
        choose: Returns those of a folder's files that are meant.

    Raises:
        SourceNotFound: Nothing is there.
        SourceError: A folder or file cannot be looked at.
    """
    found: dict[str, Stamp] = {}
    meant: dict[str, Stamp] = {}
    for path in each(where):
        there = files.listed(path, ("",))
        picked = choose(there) if files.is_folder(path) else there
        for stamps, into in ((there, found), (picked, meant)):
            for stamp in stamps:
                into.setdefault(stamp.path, stamp)
    return list(meant.values()), len(found) - len(meant)

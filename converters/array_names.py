"""Tell by their names which files of arrays are parts of one array, and which are arrays of their own."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from datafeed.converters.names import base_name, escape, shown
from datafeed.errors import SourceError


def group_names(paths: Sequence[str]) -> list[dict[str, int]]:
    """Group files, each of which holds one array.

    Files whose names are the same but for digits are parts of one array. Where there are several arrays, each needs as
    many parts, which belong together in the order of the files.

    Args:
        paths: The files, in order.

    Returns:
        For each part, the place of its file by the name of the array: empty where there is one array.

    Raises:
        SourceError: The arrays have different numbers of parts.
    """
    stems = [os.path.splitext(escape(base_name(path)))[0] for path in paths]
    groups: dict[str, list[int]] = {}
    for place, stem in enumerate(stems):
        groups.setdefault(re.sub(r"\d+", "", stem), []).append(place)
    if len(groups) == 1:
        return [{"": place} for place in range(len(paths))]
    counts = {key: len(places) for key, places in groups.items()}
    if len(set(counts.values())) > 1:
        few, many = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
        raise SourceError(
            f"files whose names differ in digits alone are parts of one array, and arrays need as many parts each: "
            f"{_told(paths, groups[many])}, but {_told(paths, groups[few])}: convert them apart, or name them apart"
        )
    single = set(counts.values()) == {1}
    names = [stems[places[0]] if single else key.strip("-_. ") or "data" for key, places in groups.items()]
    if len(set(names)) < len(names):
        raise SourceError(f"two arrays would be named alike: {shown(tuple(sorted(names)))}: rename their files")
    return [dict(zip(names, row, strict=True)) for row in zip(*groups.values(), strict=True)]


def _told(paths: Sequence[str], places: Sequence[int]) -> str:
    return f"{shown(paths[places[0]])} is one of {len(places)}"

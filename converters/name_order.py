"""Put names that lie end to end in order, without an object for each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.integer]

PAD = b"\0" * 8  # behind the last name: keys are read 8 bytes at a time
_STEP = 2**16
_KEPT = np.array([0, *((2**64 - 1) << (64 - 8 * count) & (2**64 - 1) for count in range(1, 9))], np.uint64)


def name_order(names: bytearray, offsets: npt.NDArray[np.int64], groups: Numbers) -> npt.NDArray[np.int64]:
    """Return the order of names: by group, then by their bytes, equal ones as they came.

    Names are compared 8 bytes at a time, and those that are told apart already no more. Bytes are in the order of code
    points where the names are UTF-8.

    Args:
        names: The names end to end, then `PAD`; no name holds a NUL.
        offsets: int64 (n + 1,), where each name begins, then where the last one ends.
        groups: (n,), the group of each name.

    Returns:
        int64 (n,), the number of the name that stands at each place.
    """
    order = np.argsort(groups, kind="stable")
    first = np.ones(len(order), np.bool_)  # whether the name at a place differs from the one before
    first[1:] = groups[order[1:]] != groups[order[:-1]]
    open_ = _tied(first, np.arange(len(order), dtype=np.int32 if len(order) < 2**31 else np.int64))
    depth = 0
    while len(open_):
        rows = order[open_]
        keys = _keys(names, offsets, rows, depth)
        inner = np.lexsort((keys, np.cumsum(first[open_], dtype=open_.dtype)))
        order[open_] = rows[inner]
        keys = keys[inner]
        first[open_[1:]] |= keys[1:] != keys[:-1]
        del rows, inner, keys
        depth += 8
        open_ = _tied(first, open_)
        open_ = open_[offsets[order[open_] + 1] - offsets[order[open_]] >= depth]  # one that ends here is the first
    return order


def _tied(first: npt.NDArray[np.bool_], places: Numbers) -> Numbers:
    """Return those of some places whose names are like the one before or the one behind."""
    last = np.append(first[1:], np.True_)
    return places[~(first[places] & last[places])]


def _keys(
    names: bytearray, offsets: npt.NDArray[np.int64], rows: npt.NDArray[np.int64], depth: int
) -> npt.NDArray[np.uint64]:
    """Return 8 bytes of each name from a depth on as a number, what is past its end as zeros."""
    words = np.ndarray((len(names) - 7,), ">u8", names, strides=(1,))
    keys = np.empty(len(rows), np.uint64)
    for start in range(0, len(rows), _STEP):
        some = rows[start : start + _STEP]
        begin = offsets[some] + depth
        left = np.minimum(offsets[some + 1] - begin, 8)
        keys[start : start + _STEP] = words[begin] & _KEPT[left]
    return keys

"""Cut the token ids of documents into samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np

from datafeed.columns import Array

Tail = Literal["keep", "drop"]
Ids = tuple[str, Array]
"""Where ids come from, and the ids: those of a document, or of a sample, whose place is that of its first id."""

RUN_IDS = 2**20
RUN_SAMPLES = 2**16


def packed(documents: Iterable[Ids], seq_len: int, tail: Tail) -> Iterator[Ids]:
    """Yield samples of `seq_len` ids from documents laid end to end; what is left at the end is kept or dropped.

    Args:
        documents: The ids of each document, of one dtype.
        seq_len: Ids of a sample, 1 or more.
        tail: Whether the ids that fill no sample become a shorter one.
    """
    held: list[Array] = []
    size = 0
    place = ""
    for where, ids in documents:
        start = 0
        while len(ids) - start >= seq_len - size:
            end = start + seq_len - size
            yield (place if size else where), np.concatenate([*held, ids[start:end]])
            held, size, start = [], 0, end
        if start < len(ids):
            place = place if size else where
            held.append(ids[start:])
            size += len(ids) - start
    if size and tail == "keep":
        yield place, np.concatenate(held)


def apart(documents: Iterable[Ids], seq_len: int | None, tail: Tail) -> Iterator[Ids]:
    """Yield each document as a sample, or as several of `seq_len` ids; its last, shorter one is kept or dropped.

    Args:
        documents: The ids of each document; one without any is an empty sample, where short ones are kept.
        seq_len: Ids of a sample at most; None for all of its document.
        tail: Whether a sample of fewer than `seq_len` ids is kept.
    """
    for where, ids in documents:
        if seq_len is None:
            yield where, ids
            continue
        for start in range(0, max(len(ids), 1), seq_len):
            if tail == "keep" or start + seq_len <= len(ids):
                yield where, ids[start : start + seq_len]


def runs_of(samples: Iterable[Ids]) -> Iterator[list[Ids]]:
    """Yield consecutive samples together, `RUN_IDS` ids or `RUN_SAMPLES` samples or a little more at a time."""
    run: list[Ids] = []
    size = 0
    for sample in samples:
        run.append(sample)
        size += len(sample[1])
        if size >= RUN_IDS or len(run) >= RUN_SAMPLES:
            yield run
            run, size = [], 0
    if run:
        yield run

"""Test cutting token ids into samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datafeed.converters import packing_tokens
from datafeed.converters.packing_tokens import Ids, Tail, apart, packed, runs_of

DOCUMENTS = st.lists(st.integers(0, 9), max_size=8)
TAILS = st.sampled_from(["keep", "drop"])


def numbered(lengths: Sequence[int]) -> list[Ids]:
    """Return documents "0", "1", ... of these lengths; every id is another."""
    ids = np.arange(sum(lengths), dtype=np.uint16)
    ends = np.cumsum(lengths, dtype=np.int64)
    return [(str(n), ids[end - length : end]) for n, (end, length) in enumerate(zip(ends, lengths, strict=True))]


def plain(samples: Sequence[Ids]) -> list[tuple[str, list[int]]]:
    """Return samples as Python values, checking their dtype."""
    assert all(ids.dtype == np.uint16 for _, ids in samples)
    return [(where, ids.tolist()) for where, ids in samples]


@given(lengths=DOCUMENTS, seq_len=st.integers(1, 12), tail=TAILS)
def test_documents_laid_end_to_end_are_cut_everywhere_alike(lengths: list[int], seq_len: int, tail: Tail) -> None:
    """As slices of one list are; the place of a sample is the document of its first id."""
    owner = [str(number) for number, length in enumerate(lengths) for _ in range(length)]
    whole = list(range(len(owner)))
    cut = [whole[start : start + seq_len] for start in range(0, len(whole), seq_len)]
    expected = [(owner[ids[0]], ids) for ids in cut if tail == "keep" or len(ids) == seq_len]
    assert plain(list(packed(numbered(lengths), seq_len, tail))) == expected


@given(lengths=DOCUMENTS, seq_len=st.one_of(st.none(), st.integers(1, 12)), tail=TAILS)
def test_documents_apart_share_no_sample(lengths: list[int], seq_len: int | None, tail: Tail) -> None:
    """A document without ids is an empty sample, where short ones are kept."""
    expected: list[tuple[str, list[int]]] = []
    for where, ids in plain(numbered(lengths)):
        size = seq_len or max(len(ids), 1)
        pieces = [ids[start : start + size] for start in range(0, len(ids), size)] or [[]]
        full = tail == "keep" or seq_len is None
        expected += [(where, piece) for piece in pieces if full or len(piece) == seq_len]
    assert plain(list(apart(numbered(lengths), seq_len, tail))) == expected


@pytest.mark.parametrize(("name", "most"), [("RUN_IDS", 5), ("RUN_SAMPLES", 2)])
def test_runs_are_bounded_and_lose_nothing(monkeypatch: pytest.MonkeyPatch, name: str, most: int) -> None:
    """By ids and, as samples may be empty, by their number."""
    monkeypatch.setattr(packing_tokens, name, most)
    samples = numbered([3, 0, 2, 7, 0, 0, 0, 4])
    runs = list(runs_of(iter(samples)))
    assert [sample for run in runs for sample in run] == samples
    sizes = [sum(len(ids) for _, ids in run[:-1]) if name == "RUN_IDS" else len(run) - 1 for run in runs]
    assert max(sizes) < most
    assert len(runs) > 2

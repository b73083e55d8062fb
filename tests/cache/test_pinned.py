"""Check where the memory of the host tier comes from."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from tiny import SCHEMA, write_dataset

from datafeed._native import Parser
from datafeed.blockindex import read_index
from datafeed.cache.config import Cache
from datafeed.cache.pinned import Pinned
from datafeed.cache.reader import TieredReader
from datafeed.reader import BlockReader


def test_blocks_are_kept_in_the_memory_that_is_made(tmp_path: Path) -> None:
    """Whole slabs of it; what was opened before keeps its own."""
    store, manifest = write_dataset(str(tmp_path), shards=1, blocks=2, records=2000)
    reader = TieredReader(BlockReader(store, manifest, read_index(store, manifest)), Cache(host="50MB"))
    made: list[npt.NDArray[np.uint8]] = []

    def make(shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
        made.append(np.full(shape, 7, np.uint8))
        return made[-1]

    reader.make = make
    kept = reader.read_runs([(0, 1), (1, 2)])
    assert made
    assert reader.read_runs([(0, 1), (1, 2)]) == kept
    zeros = np.zeros(1, np.int32)
    names = frozenset([1])
    parser = Parser(SCHEMA.features)
    for block in kept:
        (view,) = parser.parse_batch([block], zeros, zeros, frozenset(), names).views[1]
        assert any(np.shares_memory(np.frombuffer(view, np.uint8), slab) for slab in made)


def test_memory_that_cannot_be_locked_is_plain(caplog: pytest.LogCaptureFixture) -> None:
    """With one warning; with CUDA it is locked."""
    pinned = Pinned()
    with caplog.at_level(logging.WARNING, "datafeed.cache"):
        pieces = [pinned((3, 5)) for _ in range(3)]
    assert {piece.shape for piece in pieces} == {(3, 5)}
    assert all(piece.flags.writeable for piece in pieces)
    locked = torch.cuda.is_available()
    assert pinned.is_refused != locked
    assert len(caplog.records) == (not locked)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="NOT TESTED: no CUDA device")
def test_memory_is_locked_on_a_gpu() -> None:
    """Torch knows it as pinned."""
    assert torch.from_numpy(Pinned()((4, 4))).is_pinned()

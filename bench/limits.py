"""Run the bare work that no loader can do without, and throw its results away."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import zstandard

from datafeed.bench.case import Case, Contender, Epoch, Step
from datafeed.blockindex import BlockIndex, read_index
from datafeed.frames import decompress_into
from datafeed.manifest import read_manifest
from datafeed.storage import open_store

_IMAGES_AT_ONCE = 32  # as many as the loader decodes in one task

T = TypeVar("T")
Extent = tuple[int, int]  # blocks, half-open
Decompress = Callable[[memoryview, int], None]


class _Thread(threading.local):
    """Hold a thread's zstd context and its buffer."""

    def __init__(self) -> None:
        self.context = zstandard.ZstdDecompressor()
        self.buffer = memoryview(bytearray(2**20))


_thread = _Thread()


def _one_shot(frame: memoryview, raw: int) -> None:
    found = len(_thread.context.decompress(frame))
    assert found == raw, f"expected a frame of {raw} raw bytes, found {found}"


def _reused(frame: memoryview, raw: int) -> None:
    if raw > _thread.buffer.nbytes:
        _thread.buffer = memoryview(bytearray(raw))
    decompress_into(frame, _thread.buffer[:raw])


class _Frames:
    """Offer the frames of a converted dataset, extent by extent.

    Args:
        folder: The dataset, local.
    """

    def __init__(self, folder: str) -> None:
        store = open_store(folder)
        manifest = read_manifest(store)
        self._files = [os.open(Path(folder) / shard.name, os.O_RDONLY) for shard in manifest.shards]
        self.index: BlockIndex = read_index(store, manifest)
        self.extents: list[Extent] = list(pairwise(self.index.extents.tolist()))

    def read(self, extent: Extent) -> memoryview:
        start, stop = extent
        stored = int(self.index.stored[start:stop].sum())
        return memoryview(os.pread(self._files[self.index.shard[start]], stored, int(self.index.offset[start])))

    def decompress(self, extent: Extent, data: memoryview, how: Decompress) -> int:
        """Decompress each frame of an extent, and return how many records they hold."""
        start, stop = extent
        position = 0
        for stored, raw in zip(
            self.index.stored[start:stop].tolist(), self.index.raw[start:stop].tolist(), strict=True
        ):
            how(data[position : position + stored], raw)
            position += stored
        return int(self.index.records[start:stop].sum())


def _begin_read(name: str, how: Decompress, case: Case) -> Epoch:
    frames = _Frames(case.converted(name))

    def task(extent: Extent) -> Step:
        return frames.decompress(extent, frames.read(extent), how), {}

    return partial(_on_threads, case.workers, task, frames.extents)


def _begin_held(name: str, how: Decompress, case: Case) -> Epoch:
    frames = _Frames(case.converted(name))
    held = [(extent, frames.read(extent)) for extent in frames.extents]

    def task(part: tuple[Extent, memoryview]) -> Step:
        return frames.decompress(*part, how), {}

    return partial(_on_threads, case.workers, task, held)


def _begin_decode(case: Case) -> Epoch:
    import cv2
    import simplejpeg

    cv2.setNumThreads(0)
    sides = (case.side, case.side)
    images = _held_images(case)
    parts = [images[start : start + _IMAGES_AT_ONCE] for start in range(0, len(images), _IMAGES_AT_ONCE)]

    def task(part: Sequence[bytes]) -> Step:
        out: npt.NDArray[np.uint8] = np.empty((*sides, 3), np.uint8)
        for encoded in part:
            pixels = simplejpeg.decode_jpeg(encoded, "RGB", min_height=case.side, min_width=case.side, min_factor=2)
            cv2.resize(pixels, sides, dst=out, interpolation=cv2.INTER_LINEAR)
        return len(part), {}

    return partial(_on_threads, case.workers, task, parts)


def _held_images(case: Case) -> list[bytes]:
    return [path.read_bytes() for path in sorted((case.raw("images") / "classes").glob("*/*"))]


def _on_threads(workers: int, task: Callable[[T], Step], parts: Sequence[T]) -> Iterator[Step]:
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(task, parts)


LIMITS: dict[str, Contender] = {
    **{
        f"{name}/zstd{suffix}": Contender(partial(begin, name, how))
        for name in ("tokens", "tabular", "images")
        for suffix, begin, how in (
            ("", _begin_held, _one_shot),
            (" into one buffer", _begin_held, _reused),
            (" and read", _begin_read, _one_shot),
        )
    },
    "images/decode": Contender(_begin_decode),
}

"""Deliver the workloads with other people's loaders, from the raw data."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from datafeed.bench.case import Case, Contender, Epoch, Step
from datafeed.bench.digests import Batch

if TYPE_CHECKING:
    import pyarrow as pa
    from datasets import Dataset as DatasetsTable

_SHUFFLE_BUFFER = 10_000
_SHARDS = 64
_SLOW_ROWS = 10_000
_PREFETCH = 4

T = TypeVar("T")
B = TypeVar("B")
Images = list[tuple[Path, int]]


def _table(case: Case) -> DatasetsTable:
    """Open the table with Hugging Face datasets, which keeps it as an Arrow file mapped into memory."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
    from datasets import load_dataset

    parquet = str(case.raw("tabular") / "tabular.parquet")
    return load_dataset("parquet", data_files=parquet, split="train", cache_dir=str(case.scratch("hf")))


def _begin_shuffled(case: Case) -> Epoch:
    """Read some rows in random order: 3,000 a second were seen, which makes all of them a matter of minutes."""
    table = _table(case).shuffle(seed=0, keep_in_memory=True).with_format("torch")
    some = table.select(range(min(_SLOW_ROWS, len(table))), keep_in_memory=True)
    return lambda: _counted(some.iter(batch_size=case.batch_size), "label")


def _begin_iterable(case: Case) -> Epoch:
    """Read some rows through a shuffle buffer, which is filled first."""
    stream = _table(case).to_iterable_dataset(num_shards=_SHARDS).shuffle(seed=0, buffer_size=_SHUFFLE_BUFFER)
    some = stream.take(_SLOW_ROWS).with_format("torch")
    return lambda: _counted(some.iter(batch_size=case.batch_size), "label")


def _begin_in_order(case: Case) -> Epoch:
    """Read slices as Arrow tables without any shuffle, and turn the columns to tensors by hand: its fastest way."""
    table = _table(case).with_format("arrow")

    def epoch() -> Iterator[Step]:
        for part in table.iter(batch_size=case.batch_size):
            yield part.num_rows, {name: _tensor(part.column(name)) for name in part.column_names}

    return epoch


def _tensor(column: pa.ChunkedArray) -> torch.Tensor:
    return torch.from_numpy(column.to_numpy().copy())  # a copy: memory mapped from the file cannot be written to


def _counted(batches: Iterator[Batch], name: str) -> Iterator[Step]:
    for batch in batches:
        yield len(batch[name]), batch  # type: ignore[arg-type]  # an array or a tensor


class _Tokens(Dataset[dict[str, torch.Tensor]]):
    """Read rows of a npy file mapped into memory, a batch at once: the fastest form torch knows.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._rows = np.load(path, mmap_mode="r")

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        return {"tokens": torch.from_numpy(self._rows[number].copy())}

    def __getitems__(self, numbers: Sequence[int]) -> dict[str, torch.Tensor]:
        return {"tokens": torch.from_numpy(self._rows[numbers])}


class _Folder(Dataset[tuple[object, int]]):
    """Read image files; decoded to one size, or as bytes.

    Args:
        case: Where they are.
        decoded: Whether they are decoded.
    """

    def __init__(self, case: Case, *, decoded: bool) -> None:
        folders = sorted((case.raw("images") / "classes").iterdir())
        self._files: Images = [
            (path, label) for label, folder in enumerate(folders) for path in sorted(folder.iterdir())
        ]
        self._read = partial(decode, side=case.side) if decoded else _encoded

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, number: int) -> tuple[object, int]:
        path, label = self._files[number]
        return self._read(path.read_bytes()), label


def _encoded(data: bytes) -> bytes:
    return data


def decode(data: bytes, side: int) -> torch.Tensor:
    """Decode a JPEG and resize it as `datafeed.Loader` does.

    Args:
        data: The file.
        side: Height and width of the result.

    Returns:
        uint8 (3, side, side), a view of memory that lies as (side, side, 3).
    """
    import cv2
    import simplejpeg

    pixels = simplejpeg.decode_jpeg(data, "RGB", min_height=side, min_width=side, min_factor=2)
    return torch.from_numpy(cv2.resize(pixels, (side, side), interpolation=cv2.INTER_LINEAR)).permute(2, 0, 1)


def _one_thread(_worker: int) -> None:
    import cv2

    cv2.setNumThreads(0)


def _begin_torch(case: Case, data: Dataset[T], collate: Callable[[B], Step]) -> Epoch:
    """Run a DataLoader whose workers live on, so that no epoch pays for starting them."""
    loader: DataLoader[T] = DataLoader(
        data,
        batch_size=case.batch_size,
        shuffle=True,
        num_workers=case.workers,
        collate_fn=collate,  # type: ignore[arg-type]  # torch hands on what __getitems__ returned
        worker_init_fn=_one_thread,
        persistent_workers=True,
        prefetch_factor=_PREFETCH,
    )
    return lambda: iter(loader)


def _whole(batch: dict[str, torch.Tensor]) -> Step:
    return len(batch["tokens"]), batch


def _bytes(samples: Sequence[tuple[bytes, int]]) -> Step:
    images, labels = zip(*samples, strict=True)
    return len(labels), {"image": list(images), "label": torch.tensor(labels)}


def _stacked(samples: Sequence[tuple[torch.Tensor, int]]) -> Step:
    images, labels = zip(*samples, strict=True)
    return len(labels), {"image": torch.stack(images), "label": torch.tensor(labels)}


PEERS: dict[str, Contender] = {
    "tabular/datasets in order": Contender(_begin_in_order, "tabular"),
    "tabular/datasets shuffled": Contender(_begin_shuffled),
    "tabular/datasets shuffle buffer": Contender(_begin_iterable),
    "tokens/DataLoader": Contender(
        lambda case: _begin_torch(case, _Tokens(case.raw("tokens") / "tokens.npy"), _whole), "tokens"
    ),
    "images/DataLoader": Contender(lambda case: _begin_torch(case, _Folder(case, decoded=False), _bytes), "images"),
    "images/DataLoader decoded": Contender(
        lambda case: _begin_torch(case, _Folder(case, decoded=True), _stacked), "pixels"
    ),
}

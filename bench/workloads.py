"""Make the raw data that the benchmarks run on.

The same name, count and seed give the same bytes on one version of numpy, pyarrow and libjpeg-turbo.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from datafeed.bench import digests
from datafeed.errors import ConfigError

Name = Literal["images", "tokens", "tabular"]
COUNTS: dict[Name, int] = {"images": 20_000, "tokens": 200_000, "tabular": 1_000_000}
STAMP = "workload.json"
VERSION = 1  # raised with every change of what is made

CLASSES = 100
SIDE = 256
_FIELD = 2 * SIDE
QUALITY = 89  # 25 KB an image with the noise below
LENGTH = 1025  # a context of 1,024 tokens, and the one that follows it
VOCABULARY = 50_000
FLOATS = 13
IDS = 26
ID_RANGE = 2**20
_TOKEN_SLOTS = 2**22  # the rarest of 50,000 tokens is drawn 1.7e-6 of the time: 7 of these slots
_ID_SLOTS = 2**20  # fewer, for there are 26 tables of them
_TOKEN_ROWS = 4096  # a row group: 8 MB
_TABLE_ROWS = 65_536  # a row group: 17 MB
# How many values the id columns of the Criteo display-advertising set take, cut to ID_RANGE.
_CARDINALITIES = (
    1460, 583, ID_RANGE, ID_RANGE, 305, 24, 12517, 633, 3, 93145, 5683, ID_RANGE, 3194,
    27, 14992, ID_RANGE, 10, 5652, 2173, 4, ID_RANGE, 18, 15, 286181, 105, 142572,
)  # fmt: skip
_SPREAD = 0x9E3779B1  # odd, so that multiplying by it permutes the ids modulo 2**20


@dataclass(frozen=True, slots=True)
class Workload:
    """Name a raw data set that lies on disk.

    Args:
        name: Which one.
        folder: Where it lies.
        count: Its samples.
        seed: Chooses its values.
        checksum: What `digests.DIGESTS[name]` gives, summed over all samples.
    """

    name: Name
    folder: str
    count: int
    seed: int
    checksum: int

    @property
    def source(self) -> Path:
        """What is converted: a folder of images, or a parquet file."""
        return Path(self.folder) / ("classes" if self.name == "images" else f"{self.name}.parquet")


def make(name: Name, folder: str | Path, count: int | None = None, seed: int = 0) -> Workload:
    """Make a raw data set, or find the one that an earlier call made.

    Args:
        name: Which one: "images" (JPEGs in class folders), "tokens" (parquet and npy) or "tabular" (parquet).
        folder: Where to put it; absent, empty, or made by an earlier call, and then replaced where it differs.
        count: How many samples, at least 1; None for all of `COUNTS`.
        seed: Chooses the values.

    Returns:
        The workload.

    Raises:
        ConfigError: The name is unknown, the count is not positive, or the folder holds something else.
    """
    if name not in get_args(Name) or (count is not None and count < 1):
        raise ConfigError(f"expected one of {', '.join(COUNTS)} and a positive count, found {name!r} and {count!r}")
    root = Path(folder)
    samples = count or COUNTS[name]
    wanted = {"name": name, "count": samples, "seed": seed, "version": VERSION}
    stamp = root / STAMP
    if stamp.exists():
        found = json.loads(stamp.read_bytes())
        if found.get("checksum") is not None and wanted.items() <= found.items():
            return Workload(name, str(root), samples, seed, found["checksum"])
        shutil.rmtree(root)
    if root.exists() and any(root.iterdir()):
        raise ConfigError(f"{root} holds something that no workload made: give another folder, or empty it")
    root.mkdir(parents=True, exist_ok=True)
    stamp.write_text(json.dumps(wanted))  # without a checksum: begun, and ours to replace
    checksum = _MAKERS[name](root, samples, seed)
    stamp.write_text(json.dumps({**wanted, "checksum": checksum}))
    return Workload(name, str(root), samples, seed, checksum)


def find(folder: str | Path) -> Workload:
    """Return the workload that an earlier `make` left in a folder.

    Raises:
        ConfigError: There is none, or its making was cut short.
    """
    stamp = Path(folder) / STAMP
    found = json.loads(stamp.read_bytes()) if stamp.exists() else {}
    if found.get("checksum") is None:
        raise ConfigError(f"no whole workload lies in {folder}: make it first")
    return Workload(found["name"], str(folder), found["count"], found["seed"], found["checksum"])


def _make_images(root: Path, count: int, seed: int) -> int:
    folders = min(CLASSES, count)
    bounds = [count * number // folders for number in range(folders + 1)]
    with ThreadPoolExecutor() as pool:
        write = partial(_write_class, root / "classes", seed, bounds)
        return sum(pool.map(write, range(folders))) % digests.MODULUS


def _write_class(root: Path, seed: int, bounds: list[int], number: int) -> int:
    import simplejpeg

    folder = root / f"class_{number:03d}"
    folder.mkdir(parents=True)
    checksum = 0
    for position, pixels in enumerate(_pictures(np.random.default_rng((seed, number)), np.diff(bounds)[number])):
        encoded = simplejpeg.encode_jpeg(pixels, quality=QUALITY, colorspace="RGB", colorsubsampling="420")
        (folder / f"{bounds[number] + position:06d}.jpg").write_bytes(encoded)
        checksum += digests.image(encoded, number)
    return checksum


def _pictures(rng: np.random.Generator, count: int) -> Iterator[npt.NDArray[np.uint8]]:
    """Draw pictures: each adds up windows on two fields of noise, made once per class, for speed."""
    fields = [_field(rng, ((8, 40), (64, 10)), grain=4), _field(rng, ((32, 20), (128, 12)), grain=5)]
    corners = rng.integers(0, _FIELD - SIDE, (count, len(fields), 2))
    for spots in corners.tolist():
        windows = [
            field[down : down + SIDE, across : across + SIDE]
            for field, (down, across) in zip(fields, spots, strict=True)
        ]
        yield np.clip(windows[0] + windows[1], 0, 255).astype(np.uint8)


def _field(rng: np.random.Generator, octaves: Sequence[tuple[int, float]], grain: float) -> npt.NDArray[np.int16]:
    """Draw smooth noise, weaker where finer as in photographs, with the grain of a sensor on it."""
    import cv2

    field = np.full((_FIELD, _FIELD, 3), 59, np.float32)
    for side, strength in octaves:
        octave = rng.standard_normal((side, side, 3), np.float32) * np.float32(strength)
        field += cv2.resize(octave, (_FIELD, _FIELD), interpolation=cv2.INTER_CUBIC)
    field += rng.standard_normal((_FIELD, _FIELD, 1), np.float32) * np.float32(grain)
    return field.astype(np.int16)


def zipf_quantiles(values: int, slots: int) -> npt.NDArray[np.uint32]:
    """Return the zipf distribution over `values` ranks as a table: a uniform draw of its slots has that distribution.

    Args:
        values: How many ranks, at least 1.
        slots: How fine the table is; the rarest ranks may have no slot.

    Returns:
        (slots,) The ranks, rising.
    """
    weights = 1 / np.arange(1, values + 1, dtype=np.float64)
    ends = np.round(np.cumsum(weights) / weights.sum() * slots).astype(np.int64)
    return np.repeat(np.arange(values, dtype=np.uint32), np.diff(ends, prepend=0))


def _make_tokens(root: Path, count: int, seed: int) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = zipf_quantiles(VOCABULARY, _TOKEN_SLOTS).astype(np.uint16)
    rng = np.random.default_rng((seed, 1))
    kept = np.lib.format.open_memmap(root / "tokens.npy", "w+", np.uint16, (count, LENGTH))
    schema = pa.schema([("tokens", pa.list_(pa.uint16(), LENGTH))])
    checksum = 0
    with pq.ParquetWriter(root / "tokens.parquet", schema) as writer:
        for start in range(0, count, _TOKEN_ROWS):
            rows = min(_TOKEN_ROWS, count - start)
            tokens = table[rng.integers(0, _TOKEN_SLOTS, (rows, LENGTH), np.uint32)]
            kept[start : start + rows] = tokens
            lists = pa.FixedSizeListArray.from_arrays(pa.array(tokens.reshape(-1)), LENGTH)
            writer.write_table(pa.table({"tokens": lists}, schema=schema), row_group_size=rows)
            checksum += digests.tokens({"tokens": tokens})
    kept.flush()
    return checksum % digests.MODULUS


def _make_tabular(root: Path, count: int, seed: int) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng((seed, 2))
    tables = [_ids(cardinality, column) for column, cardinality in enumerate(_CARDINALITIES)]
    checksum = 0
    writer: pq.ParquetWriter | None = None
    for start in range(0, count, _TABLE_ROWS):
        columns = _rows(rng, tables, min(_TABLE_ROWS, count - start))
        table = pa.table(columns)
        if writer is None:
            writer = pq.ParquetWriter(root / "tabular.parquet", table.schema)
        writer.write_table(table, row_group_size=_TABLE_ROWS)
        checksum += digests.tabular(columns)
    assert writer is not None
    writer.close()
    return checksum % digests.MODULUS


def _ids(cardinality: int, column: int) -> npt.NDArray[np.int64]:
    """Return the slots of one id column: zipf ranks, hashed into the column's own ids as feature hashing does."""
    ranks = zipf_quantiles(cardinality, _ID_SLOTS).astype(np.int64)
    return (ranks * _SPREAD + column * 7919) % ID_RANGE


def _rows(
    rng: np.random.Generator, tables: list[npt.NDArray[np.int64]], rows: int
) -> dict[str, npt.NDArray[np.generic]]:
    columns: dict[str, npt.NDArray[np.generic]] = {"label": (rng.random(rows) < 0.25).astype(np.int64)}
    for number in range(FLOATS):
        values = np.exp(rng.standard_normal(rows, np.float32) * np.float32(1.5) + np.float32(number / 4))
        columns[f"float_{number:02d}"] = values
    for number, table in enumerate(tables):
        columns[f"id_{number:02d}"] = table[rng.integers(0, _ID_SLOTS, rows, np.uint32)]
    return columns


_MAKERS: dict[Name, Callable[[Path, int, int], int]] = {
    "images": _make_images,
    "tokens": _make_tokens,
    "tabular": _make_tabular,
}

"""Write datasets of every form of feature with the real writer, and say what each sample must be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import cv2
import numpy as np
from golden_data import to_column

from datafeed._native import Encoder
from datafeed.commit import commit
from datafeed.footer import Place
from datafeed.frames import compress
from datafeed.header import make_header
from datafeed.schema import NUMERIC, Feature, Schema, stored
from datafeed.shard import ShardWriter, shard_name
from datafeed.storage import open_store

SCHEMA = Schema(
    [
        stored("id", "int64"),
        *(stored(f"{dtype}.scalar", dtype) for dtype in NUMERIC),
        *(stored(f"{dtype}.array", dtype, (2, 3)) for dtype in NUMERIC),
        *(stored(f"{dtype}.ragged", dtype, (None, 2)) for dtype in NUMERIC),
        stored("listed", "int64", (None,), int64_lists=True),
        stored("blob", "bytes"),
        stored("text", "utf8"),
        stored("blobs", "bytes", (2,)),
        stored("words", "utf8", (None,)),
        stored("maybe", "int64", optional=True),
        stored("maybe_point", "float64", (2,), optional=True),
        stored("maybe_ragged", "uint16", (None,), optional=True),
        stored("maybe_text", "utf8", optional=True),
        stored("maybe_words", "utf8", (None,), optional=True),
        stored("photo", "bytes", media="image/jpeg"),
        stored("drawing", "bytes", media="image/png", optional=True),
    ]
)
SMALL = Schema([stored("id", "int64"), stored("tokens", "uint16", (8,)), stored("text", "utf8")])
IMAGES = Schema([stored("id", "int64"), SCHEMA["photo"], SCHEMA["drawing"]])

Value = object


def value(feature: Feature, number: int) -> Value:
    """Return what sample `number` holds under a feature; None where it is missing."""
    if feature.name == "id":
        return number
    if feature.optional and number % 3 == 1:
        return None
    if feature.is_image:
        return encoded(".jpg" if feature.media == "image/jpeg" else ".png", number)
    count = number % 4 if feature.ragged else 1
    if feature.numeric:
        shape = (count, *feature.row_shape) if feature.ragged else feature.row_shape
        return numbers(feature.dtype, shape, number)
    return _text(feature, number, count)


def _text(feature: Feature, number: int, count: int) -> Value:
    make: Callable[[int], bytes | str]
    make = (lambda i: f"né {number}.{i}" * i) if feature.dtype == "utf8" else (lambda i: b"\0\xff%d" % number * i)
    if not feature.shape:
        return make(number % 3)
    return [make(i) for i in range(count if feature.ragged else feature.row_items)]


def numbers(dtype: str, shape: tuple[int, ...], number: int) -> np.ndarray:
    """Return numbers of a dtype, its least and its largest among them."""
    kind, count = np.dtype(dtype), int(np.prod(shape))
    if dtype == "bool":
        return (np.arange(count) + number).reshape(shape) % 2 == 0
    if kind.kind == "f":
        return (np.arange(count) - number / 4).astype(kind).reshape(shape)
    bounds = np.iinfo(kind)
    picked = [int(bounds.max), int(bounds.min), number % 100]
    return np.array([picked[(number + i) % 3] for i in range(count)], kind).reshape(shape)


def encoded(suffix: str, number: int) -> bytes:
    """Return an encoded image of one colour, which tells its number."""
    pixels = np.full((12 + number % 3, 16, 3), colour(number), np.uint8)
    return cv2.imencode(suffix, pixels[:, :, ::-1])[1].tobytes()


def colour(number: int) -> tuple[int, int, int]:
    """Return the red, green and blue of image `number`."""
    return (number * 40 % 256, number * 90 % 256, 120)


def sample(schema: Schema, number: int) -> dict[str, Value]:
    """Return sample `number`."""
    return {feature.name: value(feature, number) for feature in schema}


def write(
    url: str | Path,
    schema: Schema = SMALL,
    records: int = 100,
    *,
    per_block: int = 7,
    shards: int = 3,
    extent_size: int = 2000,
    make: Callable[[Feature, int], Value] = value,
    promised: Schema | None = None,
) -> str:
    """Write a dataset whose record i is `sample(schema, i)`, unless told otherwise; return its URL."""
    store = open_store(str(url))
    facts = {"source": "forms", "records": records}
    header = make_header(promised or schema, block_size=4096, level=3, provenance=facts, extent_size=extent_size)
    per_shard = max(1, -(-records // shards))
    pairs = []
    for shard, low in enumerate(range(0, records, per_shard)):
        stop = min(low + per_shard, records)
        with store.writer(shard_name(shard)) as sink:
            writer = ShardWriter(sink, header, shard)
            for start in range(low, stop, per_block):
                writer.add(*_block(schema, range(start, min(start + per_block, stop)), make))
            last = stop == records
            info = writer.finish(begin=Place(shard, 0), end=Place(shard + 1, 0), skipped=0, last=last)
        pairs.append((info, writer.columns()))
    commit(store, header, "zstd", [info for info, _ in pairs], [columns for _, columns in pairs])
    return str(url)


def _block(schema: Schema, rows: Sequence[int], make: Callable[[Feature, int], Value]) -> tuple[bytes, int, int]:
    columns = [to_column(feature, list(map(partial(make, feature), rows))) for feature in schema]
    raw, count = Encoder(list(schema)).encode(columns, 0, len(rows), 2**31)
    return compress(raw, 3), len(raw), count


def same(found: object, expected: object) -> bool:
    """Tell whether two values are equal, dtype and shape included."""
    if isinstance(expected, np.ndarray):
        assert isinstance(found, (np.ndarray, np.generic)), type(found)
        return found.dtype == expected.dtype and found.shape == expected.shape and bool(np.all(found == expected))
    return found == expected

"""Generate schemas, columns and Examples for the tests of the kernels; compare columns."""

from __future__ import annotations

import numpy as np
import oracle
from hypothesis import strategies as st

from datafeed.columns import Column
from datafeed.schema import DTYPES, INTEGER, Feature, Shape

Table = tuple[list[Feature], list[Column], int]
"""Features, a column each, and how many rows."""

SHAPES: tuple[Shape, ...] = ((), (1,), (3,), (2, 2), (0,), (None,), (None, 2), (None, 0))


def _feature(name: str, kind: str, dtype: str, shape: Shape, *, optional: bool = False) -> Feature | None:
    if kind == "int64" and (dtype not in INTEGER or dtype == "uint64"):
        return None
    if (kind == "float" and dtype != "float32") or (dtype in {"bytes", "utf8"} and (kind != "bytes" or len(shape) > 1)):
        return None
    return Feature(name, kind, dtype, shape, optional=optional)  # type: ignore[arg-type]  # one of the kinds


CHOICES = [
    (kind, dtype, shape)
    for kind in oracle.KINDS
    for dtype in DTYPES
    for shape in SHAPES
    if _feature("x", kind, dtype, shape)
]
"""Every combination that Feature accepts, and so every form of a column."""

NAMES = st.one_of(st.text("abé_0", min_size=1, max_size=5), st.integers(20, 140).map(lambda n: "n" * n))


@st.composite
def features(draw: st.DrawFn, most: int = 5) -> list[Feature]:
    """Draw a few features with names of their own."""
    names = draw(st.lists(NAMES, max_size=most, unique=True))
    made = [_feature(name, *draw(st.sampled_from(CHOICES)), optional=draw(st.booleans())) for name in names]
    return [feature for feature in made if feature is not None]


@st.composite
def cells(draw: st.DrawFn, feature: Feature) -> oracle.Values | None:
    """Draw values that a feature may hold; None where it is missing."""
    if feature.optional and draw(st.booleans()):
        return None
    rows = draw(st.integers(0, 3)) if feature.ragged else 1
    items = rows * feature.row_items
    if not feature.numeric:
        items = items if feature.shape else 1
        return list(draw(st.lists(st.binary(max_size=9), min_size=items, max_size=items)))
    if feature.raw:
        size = items * feature.numpy_dtype.itemsize
        raw = draw(st.binary(min_size=size, max_size=size))
        return [bytes(byte & 1 for byte in raw) if feature.dtype == "bool" else raw]
    if feature.kind == "float":
        return list(draw(st.lists(st.binary(min_size=4, max_size=4), min_size=items, max_size=items)))
    low, high = oracle.limits(feature)
    numbers = st.one_of(st.integers(low, high), st.sampled_from([low, high, 0, 1]))
    return list(draw(st.lists(numbers, min_size=items, max_size=items)))


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Draw features with columns of a few rows."""
    asked = draw(features())
    rows = draw(st.integers(0, 4))
    columns = [oracle.to_column(f, [draw(cells(f)) for _ in range(rows)]) for f in asked]
    return asked, columns, rows


def any_values(kind: str) -> st.SearchStrategy[oracle.Values]:
    """Draw values of a kind, whatever the feature wants."""
    if kind == "int64":
        small = st.sampled_from([0, 1, 127, 128, 255, 256, -1, 2**31, 2**63 - 1, -(2**63)])
        return st.lists(st.one_of(small, st.integers(-(2**63), 2**63 - 1)), max_size=4)
    if kind == "float":
        return st.lists(st.binary(min_size=4, max_size=4), max_size=4)
    return st.lists(st.binary(max_size=9), max_size=4)


UNKNOWN_FIELDS = st.sampled_from(
    [b"\x18\x05", b"\x19" + b"e" * 8, b"\x9d\x06" + b"f" * 4, oracle.field(15, b"g"), b"\x08\x01", b"\x11" + b"h" * 8]
)


@st.composite
def wire_features(draw: st.DrawFn, feature: Feature) -> bytes:
    """Draw the message of one feature: mostly what it wants, at times another kind, form or nothing."""
    parts = []
    for _ in range(draw(st.sampled_from([0, 1, 1, 1, 1, 1, 1, 2, 3]))):
        if draw(st.sampled_from([True, True, True, False])):
            kind, values = feature.kind, draw(cells(feature)) or []
        else:
            kind = draw(st.sampled_from(list(oracle.KINDS)))
            values = draw(any_values(kind))
        style = oracle.Style(draw(st.booleans()), draw(st.sampled_from([1, 1, 1, 2, 3])))
        parts.append(oracle.feature_message(kind, values, style))
        if draw(st.sampled_from([False] * 9 + [True])):
            parts.append(draw(UNKNOWN_FIELDS))
    return b"".join(parts)


@st.composite
def wire_entries(draw: st.DrawFn, feature: Feature) -> bytes:
    """Draw a map entry: key and value mostly once, in any order."""
    fields = [oracle.field(1, feature.name.encode()), oracle.field(2, draw(wire_features(feature)))]
    odd = draw(st.sampled_from(["", "", "", "", "swap", "twice", "extra", "keyless", "valueless", "rename"]))
    if odd == "swap":
        fields.reverse()
    elif odd == "twice":
        fields.append(oracle.field(2, draw(wire_features(feature))))
    elif odd == "extra":
        fields.insert(draw(st.integers(0, 2)), draw(UNKNOWN_FIELDS))
    elif odd == "rename":
        fields.insert(0, oracle.field(1, b"other"))
    elif odd:
        del fields[0 if odd == "keyless" else 1]
    return oracle.field(1, b"".join(fields))


@st.composite
def wire_records(draw: st.DrawFn, asked: list[Feature]) -> bytes:
    """Draw a record: each feature mostly once, in any order, with strangers and several `features` at times."""
    entries = [draw(wire_entries(feature)) for feature in asked]
    odd = draw(st.sampled_from(["", "", "order", "drop", "repeat", "stranger", "split", "unknown"]))
    if odd == "order":
        entries = draw(st.permutations(entries))
    elif odd == "drop" and entries:
        del entries[draw(st.integers(0, len(entries) - 1))]
    elif odd == "repeat" and asked:
        entries.append(draw(wire_entries(draw(st.sampled_from(asked)))))
    elif odd == "stranger":
        entries.insert(draw(st.integers(0, len(entries))), oracle.entry_message("stranger", b"\xff\xff"))
    elif odd == "unknown":
        entries.insert(draw(st.integers(0, len(entries))), draw(UNKNOWN_FIELDS))
    if odd == "split":
        half = len(entries) // 2
        return oracle.field(1, b"".join(entries[:half])) + oracle.field(1, b"".join(entries[half:]))
    return oracle.field(1, b"".join(entries))


def assert_same(found: Column, expected: Column) -> None:
    """Compare two columns to the bit, dtype and shape included."""
    for part in ("values", "offsets", "inner", "present"):
        one, other = getattr(found, part), getattr(expected, part)
        assert (one is None) == (other is None), part
        if one is not None:
            assert (one.dtype, one.shape) == (other.dtype, other.shape), part
            assert one.tobytes() == other.tobytes(), part


def all_forms() -> tuple[list[Feature], list[Column]]:
    """Return one feature of every combination that Feature accepts, with columns of 4 rows."""
    rng = np.random.default_rng(5)
    asked, columns = [], []
    for i, (kind, dtype, shape) in enumerate(CHOICES):
        feature = _feature(f"f{i}", kind, dtype, shape, optional=i % 3 == 0)
        assert feature is not None
        asked.append(feature)
        columns.append(oracle.to_column(feature, [_some(feature, rng) for _ in range(4)]))
    return asked, columns


def _some(feature: Feature, rng: np.random.Generator) -> oracle.Values | None:
    if feature.optional and rng.random() < 0.3:
        return None
    items = feature.row_items * (int(rng.integers(0, 4)) if feature.ragged else 1)
    if not feature.numeric:
        return [rng.bytes(int(rng.integers(0, 6))) for _ in range(items if feature.shape else 1)]
    if feature.raw:
        return [rng.integers(0, 2, items * feature.numpy_dtype.itemsize, np.uint8).tobytes()]
    if feature.kind == "float":
        return [rng.bytes(4) for _ in range(items)]
    low, high = oracle.limits(feature)
    return [int(value) for value in rng.integers(low, high, items, np.int64, endpoint=True)]

"""Check the encoder against the oracle, and the cut into bytes objects."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import native_cases as cases
import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datafeed._native import Block, Encoder, Parser, bytes_list
from datafeed.columns import Column
from datafeed.errors import RecordTooLarge, SchemaError
from datafeed.schema import Feature

INTS = Feature("a", "int64", "int64", (None,))
TEXTS = Feature("a", "bytes", "bytes", (None,))


@given(cases.tables(), st.integers(0, 400))
def test_encode_when_columns_are_any(table: cases.Table, limit: int) -> None:
    """The bytes and the count equal the oracle's, from each start, under any limit."""
    features, columns, rows = table
    encoder = Encoder(features)
    for start in range(rows + 1):
        found = encoder.encode(columns, start, rows, limit)
        assert found == oracle.encode(features, columns, start, rows, limit)


@given(cases.tables())
def test_encode_when_read_back(table: cases.Table) -> None:
    """What is encoded is parsed to the same columns."""
    features, columns, rows = table
    raw, count = Encoder(features).encode(columns, 0, rows, 2**40)
    assert count == rows
    block = Block(raw, rows, check_payload=True)
    found = Parser(features).parse([block], np.zeros(rows, np.int32), np.arange(rows, dtype=np.int32))
    for one, other in zip(found, columns, strict=True):
        cases.assert_same(one, other)


def test_encode_when_columns_have_every_form() -> None:
    """Each kind, dtype and shape that a schema accepts is written as the oracle writes it."""
    features, columns = cases.all_forms()
    assert Encoder(features).encode(columns, 0, 4, 2**40) == oracle.encode(features, columns, 0, 4, 2**40)


def test_encode_when_the_limit_is_met_exactly() -> None:
    """Records go in while they fit to the byte; the first goes in whatever its size."""
    features, columns = [Feature("a", "int64", "int64")], [Column(np.arange(10))]
    size = len(oracle.encode(features, columns, 0, 1, 0)[0])
    encoder = Encoder(features)
    counts = [encoder.encode(columns, 0, 10, limit)[1] for limit in (0, 2 * size - 1, 2 * size, 2 * size + 1, 2**70)]
    assert counts == [1, 1, 2, 2, 10]
    assert encoder.encode(columns, 4, 4, 100) == (b"", 0)


def test_encode_when_varints_have_every_width() -> None:
    """Integers at each width's edges are written in as few bytes as they need."""
    values = [v for width in range(1, 10) for v in (2 ** (7 * width) - 1, 2 ** (7 * width) % 2**63)]
    columns = [Column(np.array([*values, -1, -(2**63), 0]))]
    features = [Feature("name", "int64", "int64")]
    rows = len(columns[0].values)
    assert Encoder(features).encode(columns, 0, rows, 2**40) == oracle.encode(features, columns, 0, rows, 2**40)


def test_encode_when_arrays_are_read_only_or_strided() -> None:
    """Read-only arrays are taken; ones with gaps are written as if they had none."""
    values = np.arange(20)[::2]
    read_only = np.arange(10) * 2
    read_only.flags.writeable = False
    features = [Feature("a", "int64", "int64"), Feature("b", "int64", "int64")]
    columns = [Column(values), Column(read_only)]
    assert Encoder(features).encode(columns, 0, 10, 2**40) == oracle.encode(features, columns, 0, 10, 2**40)


@pytest.mark.parametrize(
    ("feature", "column"),
    [
        (Feature("a", "int64", "int64"), Column(np.zeros(2, np.int32))),
        (Feature("a", "int64", "int64"), Column(np.zeros(2, ">i8"))),
        (Feature("a", "int64", "int64"), Column(np.zeros((2, 1), np.int64))),
        (Feature("a", "int64", "int64", (3,)), Column(np.zeros((2, 2), np.int64))),
        (Feature("a", "int64", "int64"), Column(np.zeros(2, np.int64), np.array([0, 1, 2]))),
        (INTS, Column(np.zeros(2, np.int64))),
        (INTS, Column(np.zeros(2, np.int64), np.array([0, 1, 2], np.int32))),
        (INTS, Column(np.zeros(2, np.int64), np.array([], np.int64))),
        (INTS, Column(np.zeros(2, np.int64), np.array([1, 2, 2]))),
        (INTS, Column(np.zeros(2, np.int64), np.array([0, 1, 3]))),
        (INTS, Column(np.zeros(2, np.int64), np.array([0, 2, 1]))),
        (INTS, Column(np.zeros(2, np.int64), np.array([0, -1, 1]))),
        (INTS, Column(np.zeros(2, np.int64), np.array([0, 2**62, 2**63 - 1]))),
        (INTS, Column(np.zeros(2, np.int64), np.array([0, 1, 2]), np.array([0, 1, 2]))),
        (TEXTS, Column(np.zeros(2, np.uint8), np.array([0, 1, 2]))),
        (TEXTS, Column(np.zeros(2, np.uint8), np.array([0, 1, 3]), np.array([0, 1, 2]))),
        (TEXTS, Column(np.zeros(2, np.uint8), np.array([0, 1, 2]), np.array([0, 1, 3]))),
        (TEXTS, Column(np.zeros(2, np.uint8), np.array([0, 1, 2]), np.array([0, 2, 1]))),
        (Feature("a", "bytes", "bytes", (2,)), Column(np.zeros(2, np.uint8), np.array([0, 1, 2]), np.array([0, 1, 2]))),
        (Feature("a", "int64", "int64"), Column(np.zeros(2, np.int64), None, None, np.array([True, False]))),
        (
            Feature("a", "int64", "int64", (), optional=True),
            Column(np.zeros(2, np.int64), None, None, np.array([True])),
        ),
    ],
)
def test_encode_when_a_column_has_another_form(feature: Feature, column: Column) -> None:
    """Wrong dtypes, shapes and offsets, and rows a feature must not lack, are refused by the feature's name."""
    with pytest.raises(SchemaError, match="feature 'a'"):
        Encoder([feature]).encode([column], 0, 2, 2**40)


def test_encode_when_columns_do_not_belong_together() -> None:
    """Too few columns, columns of unequal length and rows outside are refused."""
    features = [Feature("a", "int64", "int64"), Feature("b", "int64", "int64")]
    columns = [Column(np.zeros(2, np.int64)), Column(np.zeros(3, np.int64))]
    with pytest.raises(SchemaError, match="expected 2 columns, found 1"):
        Encoder(features).encode(columns[:1], 0, 1, 100)
    with pytest.raises(SchemaError, match="expected 2 rows"):
        Encoder(features).encode(columns, 0, 1, 100)
    for start, stop in ((-1, 1), (0, 3), (2, 1)):
        with pytest.raises(ValueError, match="start <= stop <= 2"):
            Encoder(features[:1]).encode(columns[:1], start, stop, 100)


def test_encode_when_a_record_is_too_large() -> None:
    """A record past 2**31 - 1 bytes is refused with its row, after the rows before it; the bytes are never touched."""
    values = np.zeros(2**31 + 1, np.uint8)
    column = Column(values, np.array([0, 1, 2**31 + 1]))
    encoder = Encoder([Feature("a", "bytes", "bytes")])
    assert encoder.encode([column], 0, 2, 2**40)[1] == 1
    with pytest.raises(RecordTooLarge) as caught:
        encoder.encode([column], 1, 2, 2**40)
    assert (caught.value.row, caught.value.feature) == (1, "a")


def test_encode_when_a_stored_row_is_left_out() -> None:
    """A missing row's values stay out of the record, whatever stands in the column."""
    feature = Feature("a", "int64", "int64", (), optional=True)
    column = Column(np.array([1, 2]), None, None, np.array([True, False]))
    raw, _ = Encoder([feature]).encode([column], 0, 2, 2**40)
    assert bytes(Block(raw).record(1)) == b"\x0a\x00"
    full = Encoder([replace(feature, optional=False)]).encode([Column(column.values)], 0, 1, 2**40)[0]
    assert bytes(Block(raw).record(0)) == bytes(Block(full).record(0))


def test_kernels_when_threads_share_them() -> None:
    """Four threads on one Encoder, Block and Parser get what one gets."""
    features, columns = cases.all_forms()
    encoder, parser = Encoder(features), Parser(features)
    raw = encoder.encode(columns, 0, 4, 2**40)[0]
    block, rows = Block(raw), np.arange(4, dtype=np.int32)

    def work(_: int) -> list[Column]:
        assert encoder.encode(columns, 0, 4, 2**40)[0] == raw
        return parser.parse([block], np.zeros(4, np.int32), rows)

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(work, range(100)):
            for one, other in zip(found, columns, strict=True):
                cases.assert_same(one, other)


def test_encoder_when_pickled() -> None:
    """An encoder travels to another process."""
    columns = [Column(np.arange(2), np.array([0, 1, 2]))]
    copy = pickle.loads(pickle.dumps(Encoder([INTS])))  # noqa: S301  (our own bytes)
    assert copy.encode(columns, 0, 2, 100) == Encoder([INTS]).encode(columns, 0, 2, 100)


@given(st.lists(st.binary(max_size=20), max_size=20))
def test_bytes_list_when_offsets_are_right(parts: list[bytes]) -> None:
    """The pieces come back, from read-only arrays too."""
    values = np.frombuffer(b"".join(parts), np.uint8)
    offsets = np.cumsum([0, *map(len, parts)]).astype(np.int64)
    assert bytes_list(values, offsets) == parts


@pytest.mark.parametrize("offsets", [[], [0, 4], [-1, 2], [0, 2, 1], [0, 2**62], [0, -(2**63), 3], [3, 0]])
def test_bytes_list_when_offsets_are_wrong(offsets: list[int]) -> None:
    """Offsets outside the values, falling, or none at all are refused."""
    with pytest.raises(SchemaError, match="offsets: expected"):
        bytes_list(np.zeros(3, np.uint8), np.array(offsets, np.int64))


def test_bytes_list_when_dtypes_are_wrong() -> None:
    """Arrays of other dtypes are refused, not cast."""
    with pytest.raises(SchemaError, match="uint8"):
        bytes_list(np.zeros(3, np.int8), np.array([0, 3]))
    with pytest.raises(SchemaError, match="int64"):
        bytes_list(np.zeros(3, np.uint8), np.array([0, 3], np.int32))

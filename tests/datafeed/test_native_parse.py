"""Check the parser against the oracle: any Example, well-formed or not."""

from __future__ import annotations

import pickle

import native_cases as cases
import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datafeed._native import Block, Parser
from datafeed.columns import Column
from datafeed.errors import SchemaError
from datafeed.schema import Feature, Kind, Shape

INT = Feature("a", "int64", "int64")


def parse(features: list[Feature], records: list[bytes]) -> list[Column]:
    """Parse records that stand in one block, in order."""
    block = Block(b"".join(map(oracle.frame, records)))
    return Parser(features).parse([block], np.zeros(len(records), np.int32), np.arange(len(records), dtype=np.int32))


def assert_same_verdict(features: list[Feature], records: list[bytes]) -> None:
    """Compare columns, or row and feature of the error, with the oracle's."""
    expected, blamed = None, None
    try:
        expected = oracle.parse(features, records)
    except SchemaError as exc:
        blamed = exc.row, exc.feature
    if expected is None:
        with pytest.raises(SchemaError) as caught:
            parse(features, records)
        assert (caught.value.row, caught.value.feature) == blamed
        return
    for found, column in zip(parse(features, records), expected, strict=True):
        cases.assert_same(found, column)


def example(*entries: bytes) -> bytes:
    """Put map entries into an Example."""
    return oracle.field(1, b"".join(entries))


def entry(kind: str, values: oracle.Values, name: str = "a", *, packed: bool = True) -> bytes:
    """Write a map entry of a list."""
    return oracle.entry_message(name, oracle.feature_message(kind, values, oracle.Style(packed)))


@given(st.data())
def test_parse_when_examples_are_of_any_form(data: st.DataObject) -> None:
    """Permuted, repeated, split, unpacked, merged, unknown and missing parts give the oracle's columns or verdict."""
    features = data.draw(cases.features())
    assert_same_verdict(features, data.draw(st.lists(cases.wire_records(features), max_size=4)))


@given(cases.tables(), st.data())
def test_f58_parse_when_bits_flip(table: cases.Table, data: st.DataObject) -> None:
    """A good record with a flipped bit or cut end is columns or SchemaError, as the oracle says; never a crash."""
    features, columns, rows = table
    records = [oracle.write_record(features, columns, row) for row in range(rows)]
    for row, record in enumerate(records):
        bit = data.draw(st.integers(0, 8 * len(record) - 1))
        spoilt = bytearray(record)
        spoilt[bit // 8] ^= 1 << bit % 8
        cut = record[: data.draw(st.integers(0, len(record)))]
        for bad in (bytes(spoilt), cut):
            assert_same_verdict(features, [*records[:row], bad, *records[row + 1 :]])


@given(cases.features(), st.lists(st.binary(max_size=40), max_size=3))
def test_f58_parse_when_bytes_are_random(features: list[Feature], records: list[bytes]) -> None:
    """Any bytes give the oracle's verdict."""
    assert_same_verdict(features, records)


def test_f58_parse_when_cut_at_every_length() -> None:
    """A record of every form, cut at each length, gives the oracle's verdict."""
    features, columns = cases.all_forms()
    features, columns = features[::5], columns[::5]
    record = oracle.write_record(features, columns, 0)
    for end in range(len(record) + 1):
        assert_same_verdict(features, [record[:end]])


def test_parse_when_columns_have_every_form() -> None:
    """Each kind, dtype and shape that a schema accepts comes back, in file order and reversed."""
    features, columns = cases.all_forms()
    records = [oracle.write_record(features, columns, row) for row in range(4)]
    for found, column in zip(parse(features, records), columns, strict=True):
        cases.assert_same(found, column)
    for found, column in zip(parse(features[::-1], records), columns[::-1], strict=True):
        cases.assert_same(found, column)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"])
@pytest.mark.parametrize("shape", [(), (1,), (2,), (None,)])
def test_parse_when_integers_are_at_their_limits(dtype: str, shape: Shape) -> None:
    """The least and greatest value pass, one beyond them is refused with the value named."""
    feature = Feature("a", "int64", dtype, shape)
    low, high = oracle.limits(feature)
    count = 2 if shape in {(2,), (None,)} else 1
    for value in (low, high):
        assert parse([feature], [example(entry("int64", [value] * count))])[0].values.reshape(-1).tolist() == (
            [value] * count
        )
    for value in {low - 1, high + 1} - {-(2**63) - 1, 2**63}:
        for packed in (True, False):
            with pytest.raises(SchemaError, match=f"fit {dtype}, found {value}"):
                parse([feature], [example(entry("int64", [value] * count, packed=packed))])


@pytest.mark.parametrize("width", range(1, 11))
def test_parse_when_varints_have_every_width(width: int) -> None:
    """The least and greatest value of each width come back, negative ones among the ten-byte ones."""
    values = [2 ** (7 * (width - 1)) * (width > 1), 2 ** (7 * width) - 1] if width < 10 else [-(2**63), -1]
    records = [example(entry("int64", [value]), entry("int64", [7], "pad" * 9)) for value in values]
    assert parse([INT], records)[0].values.tolist() == values


@pytest.mark.parametrize("body", [b"\x81\x00", b"\xff" * 9 + b"\x7f", b"\x80" * 9 + b"\x01"])
def test_parse_when_varints_are_not_the_shortest(body: bytes) -> None:
    """Padded and overlong varints are read as protobuf reads them, bits past the 64th dropped."""
    record = example(oracle.entry_message("a", oracle.field(3, oracle.field(1, body))), entry("int64", [1], "z" * 30))
    assert_same_verdict([INT], [record])


@pytest.mark.parametrize("wire", [3, 4, 6, 7])
def test_f58_parse_when_wire_types_are_refused(wire: int) -> None:
    """Groups and unknown wire types are no Example, at any depth."""
    bad = bytes([9 << 3 | wire])
    for record in (bad, example(bad), example(oracle.field(1, oracle.field(1, b"a") + bad)),
                   example(oracle.entry_message("a", bad)),
                   example(oracle.entry_message("a", oracle.field(3, bad)))):  # fmt: skip
        with pytest.raises(SchemaError, match=r"expected a tf.train.Example, found"):
            parse([INT], [record])


def test_f58_parse_when_messages_nest_deeply() -> None:
    """Fields nested a thousand deep, known or unknown, are skipped without recursion."""
    deep = b""
    for _ in range(1000):
        deep = oracle.field(1, deep)
    assert_same_verdict([INT], [deep])
    assert_same_verdict([INT], [oracle.field(9, deep) + example(entry("int64", [5]))])


@pytest.mark.parametrize(
    ("feature", "kind", "values", "reason"),
    [
        (INT, "float", [b"\0\0\0\0"], "expected an int64 list, found a float list"),
        (INT, "int64", [1, 2], r"expected 1 values for shape \(\), found 2"),
        (INT, "int64", [], r"expected 1 values for shape \(\), found 0"),
        (Feature("a", "int64", "int64", (None, 2)), "int64", [1, 2, 3], "a multiple of 2 values"),
        (Feature("a", "bytes", "bytes"), "bytes", [b"1", b"2"], "expected 1 values"),
        (Feature("a", "bytes", "bytes", (3,)), "bytes", [b"1"], "expected 3 values"),
        (Feature("a", "bytes", "uint16", (3,)), "bytes", [b"12345"], "expected 6 bytes for uint16"),
        (Feature("a", "bytes", "uint16", (None,)), "bytes", [b"12345"], "a multiple of 2 bytes"),
    ],
)
def test_f58_parse_when_a_feature_does_not_fit(
    feature: Feature, kind: Kind, values: oracle.Values, reason: str
) -> None:
    """The error names the feature, the row, what was expected and what was found."""
    with pytest.raises(SchemaError, match=reason) as caught:
        parse([feature], [example(entry(kind, values))])
    assert (caught.value.row, caught.value.feature) == (0, "a")


def test_parse_when_a_feature_is_missing() -> None:
    """An absent key and a feature with no kind set are missing: refused, or a gap where the feature is optional."""
    for record in (example(), b"", example(oracle.entry_message("a", b""))):
        with pytest.raises(SchemaError, match="found none; mark it optional") as caught:
            parse([INT], [example(entry("int64", [1])), record])
        assert (caught.value.row, caught.value.feature) == (1, "a")
        asked = [
            Feature("a", "int64", "int64", (), optional=True),
            Feature("b", "float", "float32", (2,), optional=True),
        ]
        for column in parse(asked, [record]):
            assert column.present is not None
            assert not column.present[0]
        assert parse(asked, [record])[0].values.tolist() == [0]
        assert np.isnan(parse(asked, [record])[1].values).all()


@pytest.mark.parametrize("kind", list(oracle.KINDS))
def test_f93_parse_when_a_list_is_empty(kind: Kind) -> None:
    """An empty list is a value of length 0 for a ragged feature, present; a fixed one refuses it, optional or not."""
    dtype = {"bytes": "bytes", "float": "float32", "int64": "int64"}[kind]
    record = example(entry(kind, []))
    ragged = parse([Feature("a", kind, dtype, (None,), optional=True)], [record])[0]
    assert ragged.offsets is not None
    assert ragged.present is not None
    assert (ragged.offsets.tolist(), ragged.present.tolist(), len(ragged.values)) == ([0, 0], [True], 0)
    for optional in (False, True):
        with pytest.raises(SchemaError, match="found 0"):
            parse([Feature("a", kind, dtype, (), optional=optional)], [record])


def test_f93_parse_when_the_first_record_is_empty_and_the_second_is_not() -> None:
    """Empty lists, no kind and an absent key before a filled record leave that record as it is."""
    ragged = Feature("a", "int64", "int64", (None,), optional=True)
    firsts = [example(entry("int64", [])), example(oracle.entry_message("a", b"")), example()]
    for first in firsts:
        assert_same_verdict([ragged], [first, example(entry("int64", [3, 4]))])


@pytest.mark.parametrize("shape", [(), (1,), (None,)])
@pytest.mark.parametrize("optional", [False, True])
def test_parse_when_one_feature_repeats_and_another_is_missing(shape: Shape, *, optional: bool) -> None:
    """A repeated key does not stand in for an absent one, and its last entry counts."""
    features = [Feature("a", "int64", "int64", shape), Feature("b", "int64", "int64", shape, optional=optional)]
    good = example(entry("int64", [1]), entry("int64", [2], "b"))
    twice = example(entry("int64", [3]), entry("int64", [4]), oracle.entry_message("stranger" * 9, b""))
    assert_same_verdict(features, [good, twice, twice, good])


@pytest.mark.parametrize("kind", list(oracle.KINDS))
@pytest.mark.parametrize("shape", [(), (None,)])
def test_parse_when_kinds_replace_each_other(kind: Kind, shape: Shape) -> None:
    """Of lists of several kinds in one feature only those after the last change count, in the narrowest dtype too."""
    lists: dict[Kind, oracle.Values] = {"int64": [1, 300, 5], "float": [b"abcd"] * 3, "bytes": [b"longer than it"] * 3}
    message = oracle.feature_message(kind, lists[kind])
    for other, values in lists.items():
        message += oracle.feature_message(other, values)
    last: dict[Kind, oracle.Values] = {"int64": [1], "float": [b"efgh"], "bytes": [b"x"]}
    record = example(oracle.entry_message("a", message + oracle.feature_message(kind, last[kind])))
    dtypes = {"int64": ("bool", "uint8", "int64"), "float": ("float32",), "bytes": ("bytes", "uint8")}
    for dtype in dtypes[kind]:
        assert_same_verdict([Feature("a", kind, dtype, shape)], [record])


def test_parse_when_scalars_share_a_dtype() -> None:
    """Scalars of one dtype are the rows of one C-ordered array, found through base; each dtype has its own."""
    dtypes = ["int64", "float32", "int64", "int32", "float32"]
    features = [Feature(f"x{i}", "float" if "f" in t else "int64", t) for i, t in enumerate(dtypes)]
    columns = [Column(np.arange(3).astype(t)) for t in dtypes]
    found = parse(features, [oracle.write_record(features, columns, row) for row in range(3)])
    whole = found[0].values.base
    assert whole is not None
    assert whole is found[2].values.base
    assert (whole.shape, whole.flags.c_contiguous, whole.dtype) == ((2, 3), True, np.dtype("int64"))
    assert found[1].values.base is found[4].values.base
    assert found[3].values.base is not None
    assert found[3].values.base.shape == (1, 3)


def test_parser_when_pickled() -> None:
    """A parser travels to another process."""
    records = [example(entry("int64", [6]))]
    block = Block(oracle.frame(records[0]))
    parser = pickle.loads(pickle.dumps(Parser([INT])))  # noqa: S301  (our own bytes)
    assert parser.parse([block], np.zeros(1, np.int32), np.zeros(1, np.int32))[0].values.tolist() == [6]


def test_parser_when_a_shape_is_beyond_any_record() -> None:
    """A hostile schema is refused before anything is allocated."""
    with pytest.raises(SchemaError, match="more than a record can hold"):
        Parser([Feature("a", "bytes", "float64", (2**40, 2**40))])


@pytest.mark.parametrize("asked", [1, 7, 40])
@pytest.mark.parametrize("written", [40, 300])
def test_parse_when_few_of_many_features_are_asked(asked: int, written: int) -> None:
    """Features not asked for are skipped, in any order, with any left out, however many there are."""
    rng = np.random.default_rng(written + asked)
    names = [f"n{i}" * int(rng.choice([1, 2, 6, 40])) for i in range(written)]
    chosen = rng.permutation(written)[:asked]
    features = [Feature(names[i], "int64", "int32", optional=bool(i % 2)) for i in chosen]
    records = []
    for _ in range(12):
        order = rng.permutation(written) if rng.random() < 0.5 else np.arange(written)
        kept = [i for i in order if i % 2 == 0 or rng.random() < 0.8]
        records.append(example(*(entry("int64", [int(rng.integers(-9, 2**31))], names[i]) for i in kept)))
    assert_same_verdict(features, records)

"""Test walking the bytes of tf.train.SequenceExample records."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from source_contract import Row, rows_of
from tiny import example, feature, feature_lists, framed, part, sequence_example, varint

from datafeed.converters import tfrecord
from datafeed.converters.options import SourceOptions
from datafeed.converters.tfrecord import TFRecords
from datafeed.errors import BadItem


def read(folder: Path, records: Sequence[bytes]) -> tuple[list[Row], list[BadItem]]:
    """Write records to a file and read them, with the bad items."""
    path, bad = folder / "t.tfrecord", []
    path.write_bytes(framed(records))
    source = TFRecords(str(path), SourceOptions())
    features = source.schema().features
    rows = [
        row for unit in source.units() for chunk in source.read(unit, bad.append) for row in rows_of(features, chunk)
    ]
    return rows, bad


NUMBERS = {"int64": st.integers(-(2**63), 2**63 - 1), "float": st.floats(width=32, allow_nan=False)}


def step_of(kind: str, values: Sequence[object], form: str) -> bytes:
    """Encode a Feature of some values in one of the forms that mean the same."""
    whole = feature(values)  # type: ignore[arg-type]  # as drawn
    if form == "packed" or kind == "bytes":
        return whole
    singles = [feature([value]) for value in values]  # type: ignore[list-item]
    if form == "runs" or kind == "float":  # several messages of one kind are one
        return b"".join(singles)
    return part(3, b"".join(b"\x08" + varint(value) for value in values))  # type: ignore[arg-type]


@given(st.data())
def test_any_records_come_back(data: st.DataObject) -> None:
    """Whatever the kinds, widths, steps and forms of encoding."""
    kinds = data.draw(
        st.dictionaries(
            st.text(max_size=5).filter(bool), st.sampled_from(["int64", "float", "bytes"]), min_size=1, max_size=3
        )
    )
    widths = {name: 1 if kind == "bytes" else data.draw(st.integers(1, 3)) for name, kind in kinds.items()}
    records, expected = [], []
    for _ in range(data.draw(st.integers(1, 4))):
        rows, coded = {}, {}
        for name, kind in kinds.items():
            values = st.binary(max_size=9) if kind == "bytes" else NUMBERS[kind]
            steps = data.draw(st.lists(st.lists(values, min_size=widths[name], max_size=widths[name]), max_size=12))
            form = data.draw(st.sampled_from(["packed", "runs", "unpacked"]))
            rows[name] = [step[0] for step in steps] if widths[name] == 1 else steps
            coded[name] = [step_of(kind, step, form) for step in steps]
        records.append(feature_lists(coded) + example({"\0context": [1]}))
        expected.append(rows)
    with tempfile.TemporaryDirectory() as folder:
        found, bad = read(Path(folder), records)
    assert not bad
    held = [name for name in kinds if any(rows[name] for rows in expected)]
    assert [_plain(rows) for rows in found] == [
        _plain({"\0context": 1, **{name: rows[name] for name in held}}) for rows in expected
    ]


def _plain(rows: Row) -> list[tuple[str, str]]:
    """Return values without their names for text, which is bytes where any value of a feature is no text."""
    texts = {
        name: [item.encode() if isinstance(item, str) else item for item in value] if isinstance(value, list) else value
        for name, value in rows.items()
    }
    return sorted((name, repr(value)) for name, value in texts.items())


HOSTILE = {
    "a field of 9 bytes at byte 2, where 1 are left": b"\x12\x09\x00",
    "field 2 of wire type 0": b"\x10\x01",
    "wire type 3": b"\x13",
    "a number at byte 1 without an end": b"\x12" + b"\xff" * 11,
    "a feature list of wire type 0": part(2, b"\x08\x01"),
    "an entry's field 2 of wire type 5": part(2, part(1, b"\x15\0\0\0\0")),
    "a step of wire type 1": part(2, part(1, part(2, b"\x09" + bytes(8)))),
    "a feature's field 3 of wire type 0": feature_lists({"x": [b"\x18\x01"]}),
    "a float list's value of wire type 0": feature_lists({"x": [part(2, b"\x08\x01")]}),
    "a packed float list of 3 bytes": feature_lists({"x": [part(2, part(1, bytes(3)))]}),
    "a packed int64 list that ends inside a number": feature_lists({"x": [part(3, part(1, b"\x80"))] * 9}),
    "its steps are float and int64 lists": feature_lists({"x": [feature([2**25])] * 8 + [feature([1.0])]}),
}


@pytest.mark.parametrize("reason", HOSTILE)
def test_f58_hostile_records_are_bad_items(tmp_path: Path, reason: str) -> None:
    """The reason says what was found."""
    good = sequence_example({}, {"x": [[1]]})
    rows, bad = read(tmp_path, [good, good, HOSTILE[reason]])
    assert rows == [{"x": [1]}] * 2
    assert reason in bad[0].reason


def rich(number: int) -> bytes:
    """Return a record with lists of each kind."""
    steps = range(number)
    lists = {
        "boxes": [[step / 2, -1.0, 0.0] for step in steps],
        "tokens": [[step * 40 - 3] for step in steps],
        "words": [f"é{step}".encode() for step in steps],
    }
    return sequence_example({"label": [number]}, lists)


def test_f58_no_cut_or_flipped_byte_does_more_harm_than_a_bad_item(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the record holds then, the others are kept; nesting is never followed."""
    whole = rich(11)
    flipped = [
        whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :] for at in range(len(whole)) for bit in (1, 2, 8, 128)
    ]
    odd = [whole[:stop] for stop in range(len(whole))] + flipped
    deep = b""
    for _ in range(3000):
        deep = part(2, part(1, deep))
    good = [rich(number) for number in range(1, 12)]
    kept, _ = read(tmp_path, good)
    monkeypatch.setattr(tfrecord, "SAMPLE_RECORDS", len(good))
    rows, bad = read(tmp_path, [*good, *odd, deep, rich(5)])
    assert rows[: len(good)] == kept
    assert rows[-1] == kept[4]
    assert len(rows) + len(bad) == len(good) + len(odd) + 2
    assert len(bad) > len(whole)

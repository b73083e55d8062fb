"""Test reading tf.train.SequenceExample records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from peer import Peer
from source_contract import Row, SourceContract, check_form, rows_of
from tiny import Value, example, feature_lists, framed, part, sequence_example

import datafeed
from datafeed.converters import tfrecord
from datafeed.converters.options import SourceOptions
from datafeed.converters.settings import ConvertOptions
from datafeed.converters.tfrecord import TFRecords
from datafeed.errors import BadItem, SourceError

PLAIN = SourceOptions()
Steps = Sequence[Value]


def sample(number: int) -> bytes:
    """Return record `number`."""
    steps = range(number % 12)
    return sequence_example(
        {"label": [number]},
        {
            "boxes": [[step / 2, -1.0, 0.0] for step in steps],
            "tokens": [[step * 40 - 3] for step in steps],
            "words": [f"é{step}".encode() for step in steps],
        },
    )


def row(number: int) -> Row:
    """Return the same as the source gives it back."""
    steps = range(number % 12)
    return {
        "boxes": [[step / 2, -1.0, 0.0] for step in steps],
        "label": number,
        "tokens": [step * 40 - 3 for step in steps],
        "words": [f"é{step}" for step in steps],
    }


def read(folder: Path, records: Sequence[bytes], options: SourceOptions = PLAIN) -> tuple[list[Row], list[BadItem]]:
    """Write records to a file and read them, with the bad items, checking the form of every column."""
    path, bad = folder / "t.tfrecord", []
    path.write_bytes(framed(records))
    source = TFRecords(str(path), options)
    schema, rows = source.schema(), []
    for unit in source.units():
        for chunk in source.read(unit, bad.append):
            for one in schema:
                check_form(one, chunk.columns[one.name], chunk.rows)
            rows += rows_of(schema.features, chunk)
    return rows, bad


class TestSequenceExamples(SourceContract):
    """Hold a folder of such files to what every source promises."""

    def open(self, path: Path) -> TFRecords:
        """Open it."""
        return TFRecords(str(path), PLAIN)

    def write(self, folder: Path) -> list[Row]:
        """Write an empty file, and two with records."""
        (folder / "a.tfrecord").touch()
        (folder / "b.tfrecord").write_bytes(framed([sample(number) for number in range(20)]))
        (folder / "c.tfrecord").write_bytes(framed([sample(number) for number in range(20, 30)]))
        return [row(number) for number in range(30)]

    def spoil(self, folder: Path) -> tuple[str, str, list[Row]]:
        """Give a record a step of another length."""
        records = [sample(number) for number in range(20)]
        records[3] = sequence_example({"label": [3]}, {"boxes": [[1.0, 2.0, 3.0], [1.0, 2.0]]})
        (folder / "b.tfrecord").write_bytes(framed(records))
        where = f"b.tfrecord: record 3, byte {len(framed(records[:3]))}"
        reason = "feature 'boxes': expected 3 in each step, as in the first records, found 2 or 3"
        return where, reason, [row(number) for number in range(30) if number != 3]


WRITE = """
import json, sys
import tensorflow as tf

KINDS = {int: ("int64_list", tf.train.Int64List), float: ("float_list", tf.train.FloatList)}

def feature(values):
    kind, made = KINDS.get(type(values[0]), ("bytes_list", tf.train.BytesList))
    return tf.train.Feature(**{kind: made(value=[v.encode() if isinstance(v, str) else v for v in values])})

with tf.io.TFRecordWriter(sys.argv[1]) as writer:
    for context, lists in json.loads(sys.argv[2]):
        record = tf.train.SequenceExample()
        for name, values in context.items():
            record.context.feature[name].CopyFrom(feature(values))
        for name, steps in lists.items():
            record.feature_lists.feature_list[name].feature.extend(map(feature, steps))
        writer.write(record.SerializeToString())
"""


@pytest.mark.peers
def test_records_of_tensorflow_are_read_value_for_value(tensorflow: Peer, tmp_path: Path) -> None:
    """Of every kind, with lists of any length and without."""
    records = [
        (
            {"id": [f"r{number}"], "label": [number - 5], "ratio": [number / 4]},
            {
                "frames": [[step / 2 - number] * 40 for step in range(number)],
                "pairs": [[step - 2, 2**40 * step] for step in range(3 * number)],
                "tokens": [[(step * 7919) % 50000 - 9] for step in range(20 - number)],
                "words": [[f"wörd {step}" * (step + 1)] for step in range(12)],
            },
        )
        for number in range(15)
    ]
    tensorflow.run(WRITE, str(tmp_path / "t.tfrecord"), json.dumps(records))
    source, bad = TFRecords(str(tmp_path), PLAIN), []
    found = [
        row
        for unit in source.units()
        for chunk in source.read(unit, bad.append)
        for row in rows_of(source.schema().features, chunk)
    ]
    assert not bad
    assert {one.name: (one.dtype, one.shape) for one in source.schema()} == {
        "frames": ("float32", (None, 40)),
        "id": ("utf8", ()),
        "label": ("int64", ()),
        "pairs": ("int64", (None, 2)),
        "ratio": ("float32", ()),
        "tokens": ("int64", (None,)),
        "words": ("utf8", (None,)),
    }
    assert [sorted(row.items()) for row in found] == [
        sorted(
            {
                **{name: values[0] for name, values in context.items()},
                **{name: steps for name, steps in steps.items() if name in ("frames", "pairs")},
                **{name: [step[0] for step in steps] for name, steps in steps.items() if name in ("tokens", "words")},
            }.items()
        )
        for context, steps in records
    ]


def test_a_list_that_shares_its_name_with_the_context_is_named_list(tmp_path: Path) -> None:
    """Whichever record has the one or the other; where that name is taken the source is refused."""
    records = [sequence_example({"x": [1]}, {"x": [[2.0], [3.0]]}), sequence_example({"x": [4]}, {})]
    assert read(tmp_path, records) == ([{"x": 1, "x.list": [2.0, 3.0]}, {"x": 4, "x.list": None}], [])
    with pytest.raises(SourceError, match=r"both named 'x', and 'x\.list', which the list would be named, is taken"):
        read(tmp_path, [*records, sequence_example({"x.list": [1]}, {})])


def test_steps_of_differing_lengths_are_refused_by_name(tmp_path: Path) -> None:
    """Also where each record has a length of its own, and texts of several values; not where others are wanted."""
    odd: dict[str, Steps] = {
        "hold 1 or 2 values": [[1.0], [2.0, 3.0]],
        "hold 2 values": [[b"a", b"b"]] * 2,
        "hold 0 values": [[], []],
        "are lists of two kinds": [[1], [1.0]],
    }
    for found, steps in odd.items():
        record = sequence_example({"label": [1]}, {"x": steps, "y": [[1]]})
        with pytest.raises(SourceError, match=f"the steps of the feature list 'x' {found}; a feature can hold"):
            read(tmp_path, [record])
        rows, bad = read(tmp_path, [record] * 2, SourceOptions(columns=("y",)))
        assert [row["y"] for row in rows] == [[1], [1]]
        assert not bad
    with pytest.raises(SourceError, match="'x' hold 1, 2 or 4 values"):
        read(tmp_path, [sequence_example({}, {"x": [[1] * width]}) for width in (1, 2, 4)])


def test_f58_records_that_do_not_fit_are_bad_items(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with its bytes: another length or kind, two kinds, a list or feature unknown before, an odd context."""
    monkeypatch.setattr(tfrecord, "SAMPLE_RECORDS", 3)
    odd = {
        "feature 'boxes': expected 3 in each step": sequence_example({"label": [1]}, {"boxes": [[1.0]]}),
        "feature 'tokens': expected": sequence_example({"label": [1]}, {"boxes": [], "tokens": [[1.0]], "words": []}),
        "its steps are float and int64 lists": sequence_example({"label": [1]}, {"tokens": [[1], [1.0]]}),
        "feature 'more': it is a feature list, which the first": sequence_example({"label": [1]}, {"more": [[1]]}),
        "has the feature 'more'": sequence_example(
            {"label": [1], "more": [1]}, {"boxes": [], "tokens": [], "words": []}
        ),
        "feature 'words': it is text in the first records, and no UTF-8": sequence_example(
            {"label": [1]}, {"boxes": [], "tokens": [], "words": ["é".encode()[:1], "é".encode()[1:]]}
        ),
        "feature 'words': it is a feature list in the first records": sequence_example(
            {"label": [1], "words": b""}, {"words": [b"x"]}
        ),
        "feature 'label'": sequence_example({}, {"boxes": []}),
        "is no UTF-8": part(2, part(1, part(1, b"\xff"))),
    }
    good = [sample(number) for number in (3, 4, 17)]
    rows, bad = read(tmp_path, [*good, *odd.values(), sample(9)])
    assert rows == [row(number) for number in (3, 4, 17, 9)]
    reasons = {item.data: item.reason for item in bad}
    assert len(bad) == len(odd)
    for reason, record in odd.items():
        assert reason in reasons[record]


def test_lists_without_steps_are_empty_and_absent_ones_missing(tmp_path: Path) -> None:
    """A list that no record fills is left out; steps without a kind hold no value."""
    unset = sequence_example({"label": [4]}, {}) + feature_lists({"x": [b"", b""], "never": [b""]})
    records = [
        sequence_example({"label": [1]}, {"x": [[5], [6]], "never": []}),
        sequence_example({"label": [2]}, {"x": []}),
    ]
    rows, bad = read(tmp_path, [*records, sequence_example({"label": [3]}, {}), unset])
    assert rows == [{"label": 1, "x": [5, 6]}, {"label": 2, "x": []}, {"label": 3, "x": None}]
    assert [item.reason for item in bad] == ["feature 'x': expected 1 in each step, as in the first records, found 0"]


def test_feature_lists_among_examples_are_bad_items(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be lost without a word; where they are empty nothing is."""
    monkeypatch.setattr(tfrecord, "SAMPLE_RECORDS", 2)
    records = [example({"x": [number]}) for number in range(2)]
    rows, bad = read(
        tmp_path, [*records, sequence_example({"x": [2]}, {"y": [[1]]}), sequence_example({"x": [3]}, {"y": []})]
    )
    assert rows == [{"x": 0}, {"x": 1}, {"x": 3}]
    assert [item.reason for item in bad] == ["it has feature lists, which the first records lack"]


def test_the_first_records_are_few_where_they_are_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Films of many MB each are not held by the thousand."""
    monkeypatch.setattr(tfrecord, "SAMPLE_NBYTES", 3 * len(sample(1)))
    rows, bad = read(tmp_path, [*[sample(1)] * 3, sequence_example({"label": [1]}, {"late": [[1]]})])
    assert len(rows) == 3
    assert "'late'" in bad[0].reason


def test_sequences_are_converted(tmp_path: Path) -> None:
    """Read from the shards they are what they were."""
    (tmp_path / "t.tfrecord").write_bytes(framed([sample(number) for number in range(30)]))
    datafeed.convert(str(tmp_path / "t.tfrecord"), str(tmp_path / "out"), ConvertOptions(workers=1))
    dataset = datafeed.Dataset(str(tmp_path / "out"))
    found = dataset[23]
    assert {name: found[name] if name in ("label", "words") else found[name].tolist() for name in found} == row(23)

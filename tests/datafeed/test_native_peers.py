"""Read what TensorFlow writes, and let it read what the encoder writes."""

from __future__ import annotations

import json
from pathlib import Path

import native_cases as cases
import numpy as np
import oracle
import pytest
from peer import Peer

from datafeed._native import Block, Encoder, Parser
from datafeed.errors import SchemaError
from datafeed.schema import Feature, Kind

pytestmark = pytest.mark.peers

WRITE = """
import sys
import tensorflow as tf

def feature(kind, values):
    lists = {"int64": tf.train.Int64List, "float": tf.train.FloatList, "bytes": tf.train.BytesList}
    return tf.train.Feature(**{kind + "_list": lists[kind](value=values)})

def example(**features):
    return tf.train.Example(features=tf.train.Features(feature=features))

full = {"i": feature("int64", [-5]), "f": feature("float", [1.5]), "b": feature("bytes", [b"x"]),
        "many": feature("int64", [-1, 0, 300]), "texts": feature("bytes", [b"", b"one", "zwei \\u00e9".encode()])}
wide = {f"n{i}": feature("int64", [i - 20]) for i in range(40)}
empty = {"many": tf.train.Feature(int64_list=tf.train.Int64List()),
         "texts": tf.train.Feature(bytes_list=tf.train.BytesList())}
records = [example(**full), example(**dict(reversed(full.items()))), example(**{**full, **empty}),
           example(**{**full, "many": tf.train.Feature(), "texts": tf.train.Feature()}),
           example(**{k: full[k] for k in "ifb"}), example(**full, **wide)]
with tf.io.TFRecordWriter(sys.argv[1]) as writer:
    for order in (False, True):
        for record in records:
            writer.write(record.SerializePartialToString(deterministic=order))
"""

READ = """
import json, sys
import tensorflow as tf

rows = []
for raw in tf.data.TFRecordDataset(sys.argv[1]):
    row = {}
    for name, feature in tf.train.Example.FromString(raw.numpy()).features.feature.items():
        kind = feature.WhichOneof("kind")
        values = getattr(feature, kind).value if kind else []
        coded = [v.hex() if isinstance(v, bytes) else v for v in values]
        if kind == "float_list":
            coded = tf.constant(list(values), tf.float32).numpy().tobytes().hex()
        row[name] = [kind, coded]
    rows.append(row)
print(json.dumps(rows))
"""

VERDICTS = """
import json, sys
import tensorflow as tf

specs = {"int64": tf.int64, "float": tf.float32, "bytes": tf.string}
defaults = {"int64": 0, "float": 0.0, "bytes": ""}
found = []
for kind, coded in json.load(open(sys.argv[1])):
    record = bytes.fromhex(coded)
    row = {}
    for form, spec in (("fixed", tf.io.FixedLenFeature([], specs[kind])),
                       ("optional", tf.io.FixedLenFeature([], specs[kind], defaults[kind])),
                       ("ragged", tf.io.RaggedFeature(specs[kind]))):
        try:
            value = tf.io.parse_example(tf.constant([record]), {"a": spec})["a"]
            row[form] = value.row_lengths().numpy().tolist() if form == "ragged" else "value"
        except tf.errors.InvalidArgumentError:
            row[form] = "error"
    found.append(row)
print(json.dumps(found))
"""


def test_parse_when_tensorflow_wrote(tmp_path: Path, tensorflow: Peer) -> None:
    """Other map orders, gaps, empty lists, several strings, no kind, negatives and 40 features are read right."""
    path = tmp_path / "written"
    tensorflow.run(WRITE, str(path))
    block = Block(path.read_bytes(), check_payload=True)
    assert len(block) == 12
    features = [
        Feature("i", "int64", "int32"),
        Feature("f", "float", "float32"),
        Feature("b", "bytes", "bytes"),
        Feature("many", "int64", "int64", (None,), optional=True),
        Feature("texts", "bytes", "utf8", (None,), optional=True),
        *(Feature(f"n{i}", "int64", "int8", (), optional=True) for i in range(40)),
    ]
    records = [bytes(block.record(i)) for i in range(12)]
    found = Parser(features).parse([block], np.zeros(12, np.int32), np.arange(12, dtype=np.int32))
    for one, other in zip(found, oracle.parse(features, records), strict=True):
        cases.assert_same(one, other)
    i, f, b, many, texts = found[:5]
    assert i.values.tolist() == [-5] * 12
    assert f.values.tolist() == [1.5] * 12
    assert b.values.tobytes() == b"x" * 12
    assert many.present is not None
    assert many.offsets is not None
    assert texts.inner is not None
    assert many.present.tolist() == [True, True, True, False, False, True] * 2
    assert many.offsets.tolist()[:7] == [0, 3, 6, 6, 6, 6, 9]
    assert many.values.tolist() == [-1, 0, 300] * 6
    assert np.diff(texts.inner).tolist() == [0, 3, 7] * 6
    assert [column.values[5] for column in found[5:]] == list(range(-20, 20))


def test_encode_when_tensorflow_reads(tmp_path: Path, tensorflow: Peer) -> None:
    """TensorFlow reads the framing and every list of every form of column as the oracle wrote it down."""
    features, columns = cases.all_forms()
    raw, rows = Encoder(features).encode(columns, 0, 4, 2**40)
    (tmp_path / "records").write_bytes(raw)
    read = json.loads(tensorflow.run(READ, str(tmp_path / "records")))
    assert len(read) == rows
    for row, values in enumerate(read):
        for feature, column in zip(features, columns, strict=True):
            cell = oracle.cell_of(feature, column, row)
            if cell is None:
                assert feature.name not in values
                continue
            kind, got = values[feature.name]
            assert kind == f"{feature.kind}_list"
            if feature.kind == "float":
                assert np.array_equal(
                    np.frombuffer(bytes.fromhex(got), np.float32),
                    np.frombuffer(b"".join(map(oracle.as_bytes, cell)), np.float32),
                    equal_nan=True,
                )
            else:
                assert got == [value.hex() if isinstance(value, bytes) else value for value in cell]


def _our_verdicts(kind: Kind, record: bytes) -> dict[str, object]:
    dtype = {"bytes": "bytes", "float": "float32", "int64": "int64"}[kind]
    block = Block(oracle.frame(record))
    row: dict[str, object] = {}
    for form, shape, optional in (("fixed", (), False), ("optional", (), True), ("ragged", (None,), True)):
        feature = Feature("a", kind, dtype, shape, optional=optional)
        try:
            column = Parser([feature]).parse([block], np.zeros(1, np.int32), np.zeros(1, np.int32))[0]
        except SchemaError:
            row[form] = "error"
        else:
            row[form] = "value" if column.offsets is None or shape == () else np.diff(column.offsets).tolist()
    return row


def test_f93_parse_when_lists_are_empty_agrees_with_tensorflow(tmp_path: Path, tensorflow: Peer) -> None:
    """Empty lists, no kind, absent keys, wrong kinds, repeats and unpacked lists get tf.io.parse_example's verdict."""
    one: dict[Kind, oracle.Values] = {"int64": [7], "float": [b"\0\0\x80?"], "bytes": [b"x"]}
    asked: list[tuple[Kind, str]] = []
    for kind, values in one.items():
        other: Kind = "float" if kind == "int64" else "int64"
        bodies = {
            "filled": oracle.feature_message(kind, values),
            "two": oracle.feature_message(kind, values * 2),
            "unpacked": oracle.feature_message(kind, values, oracle.Style(packed=False)),
            "empty": oracle.feature_message(kind, []),
            "no kind": b"",
            "other": oracle.feature_message(other, one[other]),
        }
        records = [oracle.field(1, oracle.entry_message("a", body)) for body in bodies.values()]
        records.append(oracle.field(1, b""))
        records.append(
            oracle.field(1, oracle.entry_message("a", bodies["two"]) + oracle.entry_message("a", bodies["filled"]))
        )
        asked += [(kind, record.hex()) for record in records]
    (tmp_path / "asked").write_text(json.dumps(asked))
    found = json.loads(tensorflow.run(VERDICTS, str(tmp_path / "asked")))
    for (kind, record_hex), theirs in zip(asked, found, strict=True):
        assert _our_verdicts(kind, bytes.fromhex(record_hex)) == theirs, record_hex

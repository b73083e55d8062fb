"""Shards read by other programs, each in a process of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import golden_data
import make_golden
import pytest
from peer import Peer

from datafeed.footer import read_footer
from datafeed.shard import shard_name
from datafeed.storage import open_store

pytestmark = pytest.mark.peers

_FORMS = make_golden.GOLDEN / "forms-v1"
_NAMES = ("label", "point", "curve", "counts", "path", "blob", "text", "pair", "words", "maybe", "perhaps")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the golden shards as plain TFRecords, made by the zstd command."""
    zstd = shutil.which("zstd")
    if zstd is None:
        pytest.skip("NOT TESTED: there is no zstd command")
    path = tmp_path_factory.mktemp("peers") / "all.tfrecord"
    shards = [str(_FORMS / shard_name(number)) for number in range(2)]
    with path.open("wb") as file:
        subprocess.run([zstd, "-dc", *shards], stdout=file, check=True)
    return path


def _run(code: str, *arguments: object) -> str:
    """Run code in a child, and return what it printed."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def _expected() -> list[dict[str, list[object]]]:
    """Return what an Example holds under each name: a list, of hexadecimal text for bytes; nothing where missing."""
    rows: list[dict[str, list[object]]] = []
    for row in golden_data.ROWS:
        found: dict[str, list[object]] = {}
        for name in _NAMES:
            value = row[name]
            values = value if isinstance(value, list) else [] if value is None else [value]
            found[name] = [_plain(item) for item in values]
        rows.append(found)
    return rows


def _plain(value: object) -> object:
    if isinstance(value, str):
        return value.encode().hex()
    return value.hex() if isinstance(value, bytes) else value


def test_tensorflow_reads_every_value(plain: Path, tensorflow: Peer) -> None:
    """TFRecordDataset over `zstd -dc` of the shards: each list of each Example is the literal."""
    code = """
        import json, sys
        import tensorflow as tf
        rows = []
        for record in tf.data.TFRecordDataset(sys.argv[1]):
            example = tf.train.Example.FromString(record.numpy())
            row = {}
            for name in sys.argv[2].split(","):
                feature = example.features.feature[name]
                kind = feature.WhichOneof("kind")
                values = list(getattr(feature, kind).value) if kind else []
                row[name] = [value.hex() if isinstance(value, bytes) else value for value in values]
            rows.append(row)
        print(json.dumps(rows))
    """
    assert json.loads(tensorflow.run(textwrap.dedent(code), str(plain), ",".join(_NAMES))) == _expected()


def test_tfrecord_package_reads_every_value(plain: Path, tfrecord: Peer) -> None:
    """The `tfrecord` package reads the same records; it gives arrays, and no key or an empty list where missing."""
    code = """
        import json, sys
        import numpy as np
        from tfrecord import example_pb2, reader
        rows = []
        for record in reader.tfrecord_iterator(sys.argv[1]):
            example = example_pb2.Example()
            example.ParseFromString(bytes(record))
            row = {}
            for name in sys.argv[2].split(","):
                feature = example.features.feature[name]
                kind = feature.WhichOneof("kind")
                values = list(getattr(feature, kind).value) if kind else []
                row[name] = [value.hex() if isinstance(value, bytes) else value for value in values]
            rows.append(row)
        print(json.dumps(rows))
    """
    assert json.loads(tfrecord.run(textwrap.dedent(code), str(plain), ",".join(_NAMES))) == _expected()


def _blocks(number: int) -> tuple[Path, list[int]]:
    footer = read_footer(open_store(_FORMS), shard_name(number))
    ends = footer.blocks.raw.astype(int).cumsum().tolist()
    return _FORMS / shard_name(number), [0, *ends]


@pytest.mark.parametrize("number", [0, 1])
def test_pyzstd_seeks_in_a_shard(plain: Path, number: int) -> None:
    """SeekableZstdFile takes the seek table, footer entry included, and finds every block's first bytes."""
    path, starts = _blocks(number)
    code = """
        import json, sys
        from pyzstd import SeekableZstdFile
        assert SeekableZstdFile.is_seekable_format_file(sys.argv[1])
        starts = json.loads(sys.argv[2])
        with SeekableZstdFile(sys.argv[1], "r") as file:
            heads = []
            for start in reversed(starts):
                file.seek(start)
                heads.append(file.read(20).hex())
            file.seek(0)
            print(json.dumps([heads[::-1], len(file.read())]))
    """
    heads, nbytes = json.loads(_run(code, path, json.dumps(starts)))
    first = 0 if number == 0 else _blocks(0)[1][-1]
    text = plain.read_bytes()[first : first + starts[-1]]
    assert heads == [text[start : start + 20].hex() for start in starts]
    assert nbytes == len(text)


@pytest.mark.parametrize("number", [0, 1])
def test_indexed_zstd_seeks_in_a_shard(plain: Path, number: int) -> None:
    """IndexedZstdFile finds every block's first bytes."""
    path, starts = _blocks(number)
    code = """
        import json, sys
        from indexed_zstd import IndexedZstdFile
        starts = json.loads(sys.argv[2])
        file = IndexedZstdFile(sys.argv[1])
        heads = []
        for start in reversed(starts[:-1]):
            file.seek(start)
            heads.append(file.read(20).hex())
        print(json.dumps([heads[::-1], file.size()]))
    """
    heads, nbytes = json.loads(_run(code, path, json.dumps(starts)))
    first = 0 if number == 0 else _blocks(0)[1][-1]
    text = plain.read_bytes()[first : first + starts[-1]]
    assert heads == [text[start : start + 20].hex() for start in starts[:-1]]
    assert nbytes == len(text)

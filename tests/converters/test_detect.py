"""Test telling what a path holds."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import zstandard
from tiny import framed

from datafeed.converters.detect import KINDS, open_source
from datafeed.converters.options import SourceOptions
from datafeed.errors import ConfigError, EmptySource, SourceError, SourceNotFound

ASKED = SourceOptions()
TFRECORD = framed([b"one", b"two"])
HEADS = {
    "parquet": b"PAR1",
    "arrow": b"ARROW1\0\0",
    "images": b"\xff\xd8\xff\xe0\x00\x10JFIF",
    "tfrecord": TFRECORD,
    "jsonl": b' {"a": 1}\n',
}


def put(path: Path, data: bytes = b"") -> Path:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def told(path: Path, kind: str | None = None) -> str:
    """Return the kind of the source that is opened."""
    source = open_source(str(path), kind, ASKED)
    assert KINDS[source.kind].place.endswith(f":{type(source).__name__}")
    return source.kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.jpg", "images"),
        ("a.JPEG", "images"),
        ("a.b.png", "images"),
        ("a.webp", "images"),
        ("a.parquet", "parquet"),
        ("a.PQ", "parquet"),
        ("a.arrow", "arrow"),
        ("a.Feather", "arrow"),
        ("a.ipc", "arrow"),
        ("a.csv", "csv"),
        ("a.tsv", "csv"),
        ("a.csv.gz", "csv"),
        ("a.tsv.gz", "csv"),
        ("a.jsonl", "jsonl"),
        ("a.ndjson", "jsonl"),
        ("a.json", "jsonl"),
        ("a.jsonl.gz", "jsonl"),
        ("a.tfrecord", "tfrecord"),
        ("a.tfrecords", "tfrecord"),
        ("a.tfrecord.gz", "tfrecord"),
        ("data.tfrecord-00000-of-00010", "tfrecord"),
    ],
)
def test_a_name_tells_the_kind(tmp_path: Path, name: str, kind: str) -> None:
    """Of a file, of a folder that holds it, and of a pattern."""
    path = put(tmp_path / "below" / name)
    assert told(path) == told(tmp_path) == told(tmp_path / "*" / "*") == kind


@pytest.mark.parametrize("kind", HEADS)
def test_content_tells_the_kind_when_the_name_does_not(tmp_path: Path, kind: str) -> None:
    """Of a file and of a folder."""
    path = put(tmp_path / "data-00000-of-00001", HEADS[kind])
    assert told(path) == told(tmp_path) == kind


@pytest.mark.parametrize("kind", ["tfrecord", "jsonl"])
def test_compressed_content_tells_the_kind(tmp_path: Path, kind: str) -> None:
    """Behind gzip's own first bytes."""
    assert told(put(tmp_path / "data", gzip.compress(HEADS[kind]))) == kind


@pytest.mark.parametrize("kind", ["tfrecord", "parquet"])
@pytest.mark.parametrize("name", ["a.csv.zst", "a.tfrecord.ZST", "a.jsonl", "data"])
def test_a_file_packed_with_zstd_is_refused(tmp_path: Path, name: str, kind: str | None) -> None:
    """Where no source unpacks it: by its content, as a file and by a pattern, whatever its name; it says what to do."""
    path = put(tmp_path / name, zstandard.compress(b"a,b\n1,2\n"))
    for asked in (path, tmp_path / "*a*"):
        with pytest.raises(SourceError, match=f"{name} is packed with zstd.*unpack it with `zstd -d {path}`"):
            told(asked, kind)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "tfrecord"])
def test_a_file_packed_with_zstd_is_not_lost_among_others(tmp_path: Path, kind: str) -> None:
    """A folder's files of the kind are all converted, or none is; of another kind, they are passed over."""
    put(tmp_path / f"a.{kind}", HEADS.get(kind, b"a,b\n1,2\n"))
    packed = put(tmp_path / "notes.txt.zst", zstandard.compress(b"notes"))
    assert told(tmp_path) == told(tmp_path, kind) == kind
    packed.rename(tmp_path / f"b.{kind}.zst")
    for asked in (None, kind):
        with pytest.raises(SourceError, match=rf"b\.{kind}\.zst is packed with zstd"):
            told(tmp_path, asked)


def test_a_shard_of_ours_is_no_raw_data(tmp_path: Path) -> None:
    """Its folder is what another command takes."""
    path = put(tmp_path / "shard-000000.tfrecord.zst", zstandard.compress(b"records"))
    with pytest.raises(SourceError, match=f"000000.tfrecord.zst is a shard of .*with `datafeed map {tmp_path}`"):
        told(path)


@pytest.mark.parametrize("data", [b"", b"plain text", b"\x1f\x8bno gzip", bytes(12)])
def test_content_of_no_kind_is_refused(tmp_path: Path, data: bytes) -> None:
    """The error lists what can be asked for."""
    with pytest.raises(SourceError, match=r"none of a known kind.*--from KIND, one of images, audio, webdataset"):
        told(put(tmp_path / "data", data))


def test_a_mixed_folder_is_refused_with_counts(tmp_path: Path) -> None:
    """Unless the kind is given."""
    for number in range(3):
        put(tmp_path / "c" / f"{number}.jpg")
    put(tmp_path / "labels.csv")
    with pytest.raises(SourceError, match=r"1 csv, 3 images among the 4 files \(3 x .jpg, 1 x .csv\).*--from KIND"):
        told(tmp_path)
    assert told(tmp_path, "images") == "images"


def test_files_without_a_kind_do_not_count_when_others_have_one(tmp_path: Path) -> None:
    """A README stands beside many a data set; hidden files and folders are nothing."""
    put(tmp_path / "README.md")
    put(tmp_path / ".cache" / "a.jpg")
    put(tmp_path / "_SUCCESS")
    put(tmp_path / "part-0.parquet")
    assert told(tmp_path) == "parquet"


def test_files_behind_links_to_folders_count(tmp_path: Path) -> None:
    """As they do when they are read; a link to itself does not."""
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "cat").symlink_to(put(tmp_path / "elsewhere" / "a.jpg").parent)
    (tmp_path / "set" / "self").symlink_to("self")
    assert told(tmp_path / "set") == "images"


@pytest.mark.parametrize("head", [b"\xff\xff\xff\xff\x10\1\0\0", b"FEA1"])
def test_arrow_streams_and_old_feather_files_are_arrow(tmp_path: Path, head: bytes) -> None:
    """By their first bytes, as a stream has no magic; what cannot be read says so when it is."""
    assert told(put(tmp_path / "data", head)) == "arrow"


def test_a_saved_dataset_is_told_by_its_state(tmp_path: Path) -> None:
    """Though it holds JSON beside Arrow files; a dataset_info.json alone says nothing, as other libraries write it."""
    put(tmp_path / "ours" / "data-00000-of-00001.arrow")
    put(tmp_path / "ours" / "dataset_info.json", b"{}")
    put(tmp_path / "ours" / "state.json", b'{"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}')
    assert told(tmp_path / "ours") == told(tmp_path / "ours" / "state.json") == "huggingface"
    put(tmp_path / "splits" / "dataset_dict.json", b'{"splits": ["train"]}')
    assert told(tmp_path / "splits") == "huggingface"
    put(tmp_path / "tensors" / "dataset_info.json", b"{}")
    put(tmp_path / "tensors" / "a.tfrecord-00000-of-00001")
    with pytest.raises(SourceError, match="1 jsonl, 1 tfrecord"):
        told(tmp_path / "tensors")


def test_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    """The error lists the kinds there are."""
    with pytest.raises(ConfigError, match="'xml'; there are images, audio, webdataset, parquet"):
        told(tmp_path, "xml")


def test_a_missing_path_names_the_nearest_folder(tmp_path: Path) -> None:
    """Nothing is told of nothing."""
    with pytest.raises(SourceNotFound, match=f"nearest folder that exists is '{tmp_path}'"):
        told(tmp_path / "a" / "b")


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    """Folders in it do not help."""
    (tmp_path / "below").mkdir()
    with pytest.raises(EmptySource, match="no file in"):
        told(tmp_path)


@pytest.mark.parametrize("kind", [None, "tfrecord"])
def test_a_converted_dataset_is_refused(tmp_path: Path, kind: str | None) -> None:
    """Named by its folder or its manifest; a dataset.json of somebody else is plain JSON."""
    manifest = put(tmp_path / "ours" / "dataset.json", b'{"codec":"zstd","format":"datafeed","version":1}')
    for path in (manifest, manifest.parent):
        with pytest.raises(SourceError, match="is a converted dataset already"):
            told(path, kind)
    assert told(put(tmp_path / "theirs" / "dataset.json", b'{"name": "x"}').parent) == "jsonl"

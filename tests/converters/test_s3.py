"""Test converting from S3 to S3, on a real server."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pyarrow as pa
import pytest
from processes import wait_until
from pyarrow import parquet
from s3_server import environment, make_bucket, options, s3_server
from s3fs import S3FileSystem

from datafeed.converters.convert import ConvertOptions, convert
from datafeed.converters.export import ExportOptions, export
from datafeed.converters.files import Files
from datafeed.converters.merge import merge
from datafeed.converters.write import write
from datafeed.dataset import Dataset
from datafeed.errors import ConfigError, OutputError, SourceChanged, SourceNotFound
from datafeed.storage import open_store
from datafeed.verify import verify

pytestmark = pytest.mark.s3
SMALL = ("--shard-size", "60kB", "--block-size", "20kB", "--workers", "1")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Run a server for the module."""
    with s3_server() as found:
        yield found


@pytest.fixture
def fs(address: str) -> S3FileSystem:
    """Return the file system of an empty bucket."""
    found = S3FileSystem(**options(address), skip_instance_cache=True)
    if found.exists("bucket"):
        found.rm("bucket", recursive=True)
    make_bucket(address, "bucket")
    return found


def put_rows(fs: S3FileSystem, count: int = 20_000) -> None:
    """Put csv files of some rows."""
    for part in range(4):
        rows = range(part * count // 4, (part + 1) * count // 4)
        fs.pipe(f"bucket/raw/{part}.csv", ("x,name\n" + "".join(f"{i},{i * 7919}\n" for i in rows)).encode())


def etags(fs: S3FileSystem, folder: str) -> dict[str, str]:
    """Return the ETag of every object of a folder."""
    fs.invalidate_cache()
    return {name.removeprefix(f"{folder}/"): info["ETag"] for name, info in fs.find(folder, detail=True).items()}


def start(address: str, *args: str) -> subprocess.Popen[str]:
    """Start a command in a child that finds the server by its environment."""
    command = [str(Path(sys.executable).with_name("datafeed")), *args]
    return subprocess.Popen(command, env=environment(address), stdout=-1, stderr=-1, text=True)


def test_f01_a_conversion_that_was_killed_goes_on(fs: S3FileSystem, address: str) -> None:
    """From S3 to S3, with the same objects as one that was not killed."""
    put_rows(fs, 60_000)
    killed = start(address, "convert", "s3://bucket/raw", "s3://bucket/cut", *SMALL)

    def begun() -> bool:
        fs.invalidate_cache()
        return len(fs.glob("bucket/cut/shard-*")) >= 2 or killed.poll() is not None

    wait_until(begun)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert not fs.exists("bucket/cut/dataset.json")
    out, err = start(address, "convert", "s3://bucket/raw", "s3://bucket/cut", *SMALL).communicate()
    assert "resumed" in out, err
    whole = start(address, "convert", "s3://bucket/raw", "s3://bucket/whole", *SMALL)
    whole.communicate()
    assert whole.returncode == 0
    assert etags(fs, "bucket/cut") == etags(fs, "bucket/whole")
    assert len(etags(fs, "bucket/whole")) > 5
    dataset = Dataset("s3://bucket/cut", options(address))
    assert dataset[:]["x"].tolist() == list(range(60_000))
    assert verify(open_store("s3://bucket/cut", options(address))).problems == ()


def test_images_and_parquet_are_read_from_s3(fs: S3FileSystem, address: str, tmp_path: Path) -> None:
    """As from local files: many objects at once, and row groups by ranges."""
    for label in ("cat", "dog"):
        for number in range(5):
            image = np.full((8, 9, 3), number * 20, np.uint8)
            fs.pipe(f"bucket/images/{label}/{number}.png", cv2.imencode(".png", image)[1].tobytes())
    convert("s3://bucket/images", tmp_path / "images", ConvertOptions(storage_options=options(address), shuffle=False))
    found = Dataset(tmp_path / "images")[:]
    assert found["path"] == [f"{label}/{number}.png" for label in ("cat", "dog") for number in range(5)]
    assert found["label"].tolist() == [0] * 5 + [1] * 5
    parquet.write_table(pa.table({"x": list(range(1000))}), tmp_path / "t.parquet", row_group_size=100)
    fs.put(str(tmp_path / "t.parquet"), "bucket/t/t.parquet")
    convert("s3://bucket/t/*.parquet", tmp_path / "t", ConvertOptions(storage_options=options(address)))
    assert Dataset(tmp_path / "t")[:]["x"].tolist() == list(range(1000))


def test_f05_an_object_that_is_replaced_is_found(fs: S3FileSystem, address: str) -> None:
    """By its ETag, though its size is the same."""
    fs.pipe("bucket/a.csv", b"x\n1\n")
    files = Files(options(address))
    stamps = files.listed("s3://bucket/a.csv", ())
    files.check_unchanged(stamps)
    fs.pipe("bucket/a.csv", b"x\n2\n")
    with pytest.raises(SourceChanged, match=r"s3://bucket/a\.csv changed while it was converted"):
        files.check_unchanged(stamps)


def test_what_is_not_there_is_named(fs: S3FileSystem, address: str, tmp_path: Path) -> None:
    """A missing prefix; a bucket of a mistyped name is no place to write to, and is not made."""
    asked = ConvertOptions(storage_options=options(address))
    with pytest.raises(SourceNotFound, match="no file or folder s3://bucket/gone"):
        convert("s3://bucket/gone", tmp_path / "out", asked)
    with pytest.raises(SourceNotFound, match="no file or folder s3://buckett/raw: no bucket 'buckett'"):
        convert("s3://buckett/raw", tmp_path / "out", asked)
    (tmp_path / "a.csv").write_text("x\n1\n")
    with pytest.raises(OutputError, match="s3://buckett/out"):
        convert(tmp_path / "a.csv", "s3://buckett/out", asked)
    assert not fs.exists("buckett")


def test_a_dataset_on_s3_is_split_and_appended_to(fs: S3FileSystem, address: str) -> None:
    """Each part commits by itself; appending reads the index back."""
    put_rows(fs, 2000)
    asked = ConvertOptions(storage_options=options(address), workers=1)
    convert("s3://bucket/raw/{0..2}.csv", "s3://bucket/parts", dataclasses.replace(asked, split="val=0.2"))
    sizes = [len(Dataset(f"s3://bucket/parts/{part}", options(address))) for part in ("train", "val")]
    assert sum(sizes) == 1500
    convert("s3://bucket/raw/0.csv", "s3://bucket/d", asked)
    convert("s3://bucket/raw/1.csv", "s3://bucket/d", dataclasses.replace(asked, append=True))
    assert Dataset("s3://bucket/d", options(address))[:]["x"].tolist() == list(range(1000))


def test_one_name_of_the_options_serves_every_command(fs: S3FileSystem, address: str, tmp_path: Path) -> None:
    """`storage_options` alone: from URLs to a local folder, within the bucket, from a local folder to it."""
    given = options(address)
    put_rows(fs, 8)
    asked = ConvertOptions(storage_options=given, shuffle=False)
    convert([f"s3://bucket/raw/{part}.csv" for part in (0, 3)], tmp_path / "local", asked)
    convert("s3://bucket/raw/1.csv", "s3://bucket/far", asked)
    merge(["s3://bucket/far", tmp_path / "local"], "s3://bucket/both", storage_options=given)
    merge(["s3://bucket/far", "s3://bucket/both"], tmp_path / "here", storage_options=given)
    merge([tmp_path / "local", tmp_path / "here"], "s3://bucket/all", storage_options=given)
    assert Dataset("s3://bucket/all", given)[:]["x"].tolist() == [0, 1, 6, 7, 2, 3, 2, 3, 0, 1, 6, 7]
    again = ExportOptions(storage_options=given, workers=1)
    for source, dest in (("s3://bucket/all", "s3://bucket/e1"), ("s3://bucket/all", "e2"), ("here", "s3://bucket/e3")):
        here = [url if "://" in url else str(tmp_path / url) for url in (source, dest)]
        assert export(*here, "tfrecord", again).records == (12 if source.endswith("all") else 8)


def test_nothing_is_written_among_what_lies_in_a_bucket(fs: S3FileSystem, address: str) -> None:
    """Neither into the raw data, nor beside folders of somebody else."""
    put_rows(fs, 2)
    asked = ConvertOptions(storage_options=options(address))
    for dest in ("s3://bucket/raw", "s3://bucket/raw/out/", "s3://bucket"):
        with pytest.raises(ConfigError, match="lies in the"):
            convert("s3://bucket/raw", dest, asked)
    fs.pipe("bucket/busy/mine/part-1.jsonl", b"{}")
    with pytest.raises(OutputError, match="busy is not empty: no conversion wrote 'mine'"):
        convert("s3://bucket/raw", "s3://bucket/busy", asked)
    assert fs.find("bucket/raw") == [f"bucket/raw/{part}.csv" for part in range(4)]
    assert fs.find("bucket/busy") == ["bucket/busy/mine/part-1.jsonl"]


@pytest.mark.usefixtures("fs")
def test_samples_of_a_program_are_written_to_s3(address: str) -> None:
    """With the options of `storage_options` alone; the place is looked at before."""
    asked = ConvertOptions(storage_options=options(address))
    write("s3://bucket/numbers", ({"x": number} for number in range(100)), options=asked)
    assert Dataset("s3://bucket/numbers", options(address))[:]["x"].tolist() == list(range(100))

"""Test adding shards to a dataset, and joining datasets."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
from numbered import Numbered, digests, rows_of

from datafeed.converters.convert import ConvertOptions, convert
from datafeed.converters.merge import merge
from datafeed.dataset import Dataset
from datafeed.errors import ConfigError, CorruptData, DatasetNotFound, IndexMismatch, OutputDiffers, SchemaError
from datafeed.rebuild import rebuild_index
from datafeed.storage import open_store
from datafeed.verify import verify

SMALL = ConvertOptions(shard_size=4000, block_size=700, workers=1)
MORE = dataclasses.replace(SMALL, append=True)


def numbers(path: Path) -> list[int]:
    """Return the numbers of a dataset's rows, in order."""
    return [row for row, _ in rows_of(str(path))]


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Convert 200 rows, and append 300 and 100 more."""
    for rows, options in ((200, SMALL), (300, MORE), (100, MORE)):
        convert(Numbered(rows), tmp_path / "d", options)
    return tmp_path / "d"


def test_appended_samples_follow_those_before(dataset: Path) -> None:
    """In shards of their own; the dataset keeps its id, its runs are told, and it verifies."""
    assert numbers(dataset) == [*range(200), *range(300), *range(100)]
    manifest = Dataset(dataset).manifest
    assert len(manifest.appended) == 2
    assert verify(open_store(dataset)).problems == ()
    assert {path.name for path in dataset.iterdir() if not path.name.startswith("shard")} == {
        "dataset.json",
        "blocks.idx",
        "blocks-000001.idx",
        "blocks-000002.idx",
    }


def test_a_reader_of_the_dataset_as_it_was_goes_on(tmp_path: Path) -> None:
    """Its manifest names the index that it knows, which stays."""
    convert(Numbered(200), tmp_path / "d", SMALL)
    before = Dataset(tmp_path / "d")
    convert(Numbered(300), tmp_path / "d", MORE)
    assert len(before) == 200
    assert before[199]["x"] == 199
    assert len(Dataset(tmp_path / "d")) == 500


def test_a_rerun_does_not_append_twice(dataset: Path) -> None:
    """The last run's samples are there already."""
    before = digests(dataset)
    report = convert(Numbered(100), dataset, MORE)
    assert (report.ran_on, report.records, report.new_records) == ("nothing", 600, 0)
    assert digests(dataset) == before


def test_f01_a_run_that_was_cut_goes_on(tmp_path: Path) -> None:
    """After its last finished shard, and gives the same bytes; until then readers see the dataset as it was."""
    for name in ("a", "b"):
        convert(Numbered(200), tmp_path / name, SMALL)
    convert(Numbered(300), tmp_path / "a", MORE)

    def stop(progress: object) -> None:
        if getattr(progress, "shards", 0) >= 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(Numbered(300, read_s=0.12), tmp_path / "b", MORE, on_progress=stop)
    assert numbers(tmp_path / "b") == list(range(200))
    with pytest.raises(OutputDiffers, match=r"shards? of another run, not committed"):
        convert(Numbered(100), tmp_path / "b", MORE)
    report = convert(Numbered(300), tmp_path / "b", MORE)
    assert report.resumed >= 3
    assert digests(tmp_path / "a") == digests(tmp_path / "b")


def test_the_index_is_rebuilt_byte_for_byte(dataset: Path) -> None:
    """From the footers, which name the runs."""
    before = (dataset / "dataset.json").read_bytes(), (dataset / "blocks-000002.idx").read_bytes()
    os.unlink(dataset / "dataset.json")
    os.unlink(dataset / "blocks-000002.idx")
    rebuild_index(open_store(dataset))
    assert ((dataset / "dataset.json").read_bytes(), (dataset / "blocks-000002.idx").read_bytes()) == before


def test_a_shard_of_the_wrong_run_is_found(dataset: Path, tmp_path: Path) -> None:
    """One that another append made, or that is missing in between."""
    convert(Numbered(200), tmp_path / "e", SMALL)
    convert(Numbered(250), tmp_path / "e", MORE)
    last = len(Dataset(tmp_path / "e").manifest.shards) - 1
    name = f"shard-{last:06d}.tfrecord.zst"
    (dataset / name).write_bytes((tmp_path / "e" / name).read_bytes())
    assert verify(open_store(dataset)).problems
    with pytest.raises(IndexMismatch, match=r"run|begins at"):
        rebuild_index(open_store(dataset))


def test_what_does_not_fit_is_refused_by_name(tmp_path: Path) -> None:
    """Another feature, another type, none there; the dataset stays as it is."""
    (tmp_path / "a.csv").write_text("x,y\n1,2.5\n")
    convert(tmp_path / "a.csv", tmp_path / "d", SMALL)
    before = digests(tmp_path / "d")
    for text, message in (
        ("x\n1\n", "'y'.*the source lacks it"),
        ("x,y,z\n1,2.5,3\n", "'z'.*leave it out with `columns`"),
        ("x,y\n1,a\n", "'y'.*the source .*utf8"),
        ("x,y\n1,\n2,2.5\n", "'y'.*optional"),
    ):
        (tmp_path / "b.csv").write_text(text)
        with pytest.raises(SchemaError, match=message):
            convert(tmp_path / "b.csv", tmp_path / "d", MORE)
    with pytest.raises(DatasetNotFound, match="no dataset at"):
        convert(tmp_path / "a.csv", tmp_path / "none", MORE)
    assert digests(tmp_path / "d") == before


def test_skipped_items_of_an_appended_run_lie_apart(tmp_path: Path) -> None:
    """Each run has its own quarantine."""
    options = dataclasses.replace(SMALL, on_error="quarantine")
    convert(Numbered(100, bad=frozenset({5})), tmp_path / "d", options)
    convert(Numbered(80, bad=frozenset({7, 8})), tmp_path / "d", dataclasses.replace(options, append=True))
    assert Dataset(tmp_path / "d").manifest.skipped == 3
    assert len(list((tmp_path / "d" / "quarantine").iterdir())) == 2
    assert len(list((tmp_path / "d" / "quarantine-000001").iterdir())) == 3


def test_datasets_are_merged_without_a_change_to_their_blocks(dataset: Path, tmp_path: Path) -> None:
    """One with appended shards, too; the frames are those of the inputs."""
    convert(Numbered(50), tmp_path / "e", SMALL)
    report = merge([dataset, tmp_path / "e", dataset], tmp_path / "m")
    assert numbers(tmp_path / "m") == [*numbers(dataset), *range(50), *numbers(dataset)]
    assert verify(open_store(tmp_path / "m")).problems == ()
    assert (report.records, report.resumed, report.complete_before) == (1250, 0, False)
    again = merge([dataset, tmp_path / "e", dataset], tmp_path / "m")
    assert again == dataclasses.replace(report, complete_before=True)
    with pytest.raises(OutputDiffers):
        merge([tmp_path / "e", dataset], tmp_path / "m")
    index, first = Dataset(tmp_path / "m").index, Dataset(dataset).index
    assert index.checksum[: len(first)].tolist() == first.checksum.tolist()
    assert index.stored[: len(first)].tolist() == first.stored.tolist()


def test_f01_a_merge_that_was_cut_goes_on(dataset: Path, tmp_path: Path) -> None:
    """With the same bytes."""
    merge([dataset, dataset], tmp_path / "a")

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        merge([dataset, dataset], tmp_path / "b", on_progress=stop)
    assert merge([dataset, dataset], tmp_path / "b").resumed >= 1
    assert digests(tmp_path / "a") == digests(tmp_path / "b")


def test_a_merge_refuses_what_cannot_be_joined(dataset: Path, tmp_path: Path) -> None:
    """Another schema, damage, one dataset alone, plain TFRecords, itself."""
    (tmp_path / "a.csv").write_text("x\n1\n")
    convert(tmp_path / "a.csv", tmp_path / "other", SMALL)
    with pytest.raises(SchemaError, match=r"other and .*d differ: "):
        merge([dataset, tmp_path / "other"], tmp_path / "m")
    with pytest.raises(ConfigError, match="expected two datasets or more"):
        merge([dataset], tmp_path / "m")
    with pytest.raises(ConfigError, match="lies in the"):
        merge([dataset, dataset], dataset / "m")
    shard = dataset / "shard-000001.tfrecord.zst"
    data = bytearray(shard.read_bytes())
    data[100] ^= 1
    shard.write_bytes(data)
    with pytest.raises(CorruptData, match="SHA-256 differ"):
        merge([dataset, dataset], tmp_path / "m")
    assert not (tmp_path / "m" / "dataset.json").exists()

"""Test what a conversion does with what stands in its destination."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
from numbered import Numbered, digests

from datafeed.converters.convert import ConvertOptions, convert
from datafeed.converters.destination import check_apart, storage_of
from datafeed.converters.source import OnError
from datafeed.errors import BadItem, ConfigError, CorruptIndex, OutputDiffers, OutputError, ShardMissing

SMALL = ConvertOptions(shard_size=4000, block_size=700, workers=1)


def test_empty_folder_is_fine(tmp_path: Path) -> None:
    """A folder that exists and is empty is a destination."""
    assert convert(Numbered(20), str(tmp_path), SMALL).records == 20


def test_complete_dataset_is_left_as_it_is(tmp_path: Path) -> None:
    """The same call again reports the dataset, and touches no file."""
    first = convert(Numbered(200), str(tmp_path), SMALL)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    again = convert(Numbered(200), str(tmp_path), SMALL)
    assert (again.ran_on, again.records, again.shards) == ("nothing", first.records, first.shards)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_complete_dataset_that_lost_shards_is_not_called_whole(tmp_path: Path) -> None:
    """The same call again names what is gone, and touches no file."""
    convert(Numbered(200), str(tmp_path), SMALL)
    for number in (1, 2):
        (tmp_path / f"shard-{number:06d}.tfrecord.zst").unlink()
    before = digests(tmp_path)
    with pytest.raises(ShardMissing, match=r"lacks 'shard-000001\.tfrecord\.zst' and 1 more of its .* shards"):
        convert(Numbered(200), str(tmp_path), SMALL)
    assert digests(tmp_path) == before


def test_f06_other_options_are_refused_with_a_list(tmp_path: Path) -> None:
    """A committed dataset of other options is kept, and each difference is named, old and new."""
    convert(Numbered(200), str(tmp_path), SMALL)
    before = digests(tmp_path)
    other = dataclasses.replace(SMALL, block_size=800, level=7, limit=10)
    with pytest.raises(OutputDiffers) as caught:
        convert(Numbered(200, blob=119), str(tmp_path), other)
    for text in ("block_size: 700 -> 800", "level: 1 -> 7", "limit: None -> 10", "blob: 120 -> 119"):
        assert text in str(caught.value)
    assert "shard_size" not in str(caught.value)
    assert digests(tmp_path) == before


def _stopped(dest: Path) -> Numbered:
    """Leave a conversion unfinished, with some shards."""
    source = Numbered(500, bad=frozenset({400}))
    with pytest.raises(BadItem):
        convert(source, str(dest), SMALL)
    assert list(dest.glob("shard-*"))
    return source


def test_f06_unfinished_conversion_of_other_options_is_refused(tmp_path: Path) -> None:
    """Shards of an unfinished conversion stay, and the differences are named."""
    source = _stopped(tmp_path)
    before = digests(tmp_path)
    with pytest.raises(OutputDiffers, match=r"unfinished conversion with other options.*shard_size: 4000 -> 5000"):
        convert(source, str(tmp_path), dataclasses.replace(SMALL, on_error="skip", shard_size=5000))
    assert digests(tmp_path) == before


def test_unfinished_conversion_without_a_shard_is_replaced(tmp_path: Path) -> None:
    """Where not one shard was finished, other options may begin anew."""
    with pytest.raises(BadItem):
        convert(Numbered(50, bad=frozenset({0})), str(tmp_path), SMALL)
    assert not list(tmp_path.glob("shard-*"))
    assert convert(Numbered(50), str(tmp_path), SMALL).records == 50
    assert not (tmp_path / "journal").exists()


def test_f06_another_way_with_bad_items_is_refused_when_shards_have_some(tmp_path: Path) -> None:
    """Shards that skipped items without keeping them cannot be finished with quarantine."""
    source = Numbered(500, bad=frozenset({3, 400}))

    def stop(_: object) -> None:
        if list(tmp_path.glob("shard-*")):
            raise KeyboardInterrupt

    slow = dataclasses.replace(source, read_s=0.03)
    with pytest.raises(KeyboardInterrupt):
        convert(slow, str(tmp_path), dataclasses.replace(SMALL, on_error="skip"), on_progress=stop)
    with pytest.raises(OutputDiffers, match="on_error: 'skip' -> 'quarantine'"):
        convert(slow, str(tmp_path), dataclasses.replace(SMALL, on_error="quarantine"))
    assert convert(slow, str(tmp_path), dataclasses.replace(SMALL, on_error="skip")).skipped == 2


@pytest.mark.parametrize("made", ["skip", "quarantine"])
@pytest.mark.parametrize("asked", ["raise", "skip", "quarantine"])
def test_f06_complete_dataset_that_passed_items_over_in_another_way_is_refused(
    tmp_path: Path, made: OnError, asked: OnError
) -> None:
    """It is left as it is; the same way again is the same conversion."""
    source = Numbered(200, bad=frozenset({3}))
    convert(source, str(tmp_path), dataclasses.replace(SMALL, on_error=made))
    before = digests(tmp_path)
    again = dataclasses.replace(SMALL, on_error=asked)
    if made == asked:
        assert convert(source, str(tmp_path), again).ran_on == "nothing"
    else:
        with pytest.raises(OutputDiffers, match=f"1 bad item. on_error: '{made}' -> '{asked}'"):
            convert(source, str(tmp_path), again)
    assert digests(tmp_path) == before


def test_complete_dataset_without_bad_items_is_the_same_for_every_way(tmp_path: Path) -> None:
    """Nothing was passed over, so nothing depends on how that is done."""
    convert(Numbered(200), str(tmp_path), SMALL)
    for asked in ("skip", "quarantine"):
        assert convert(Numbered(200), str(tmp_path), dataclasses.replace(SMALL, on_error=asked)).ran_on == "nothing"


@pytest.mark.parametrize("name", ["mine", "mine/new"])
def test_a_file_is_no_destination(tmp_path: Path, name: str) -> None:
    """Nor can a directory be made in one: the file is named."""
    (tmp_path / "mine").write_bytes(b"mine")
    with pytest.raises(OutputDiffers, match=f"'{tmp_path}/mine' is a file: name a new or empty directory"):
        convert(Numbered(20), str(tmp_path / name), SMALL)


@pytest.mark.parametrize("name", ["photo.jpg", "sub/photo.jpg", "shard-000000.tfrecord.zst", "journal/mine.txt"])
def test_foreign_files_are_refused_and_kept(tmp_path: Path, name: str) -> None:
    """A folder that holds anything of somebody else is not a destination."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"mine")
    with pytest.raises(OutputDiffers, match="is not empty: no conversion wrote '"):
        convert(Numbered(20), str(tmp_path), SMALL)
    assert digests(tmp_path) == digests(tmp_path) | {name: digests(tmp_path)[name]}
    assert len(digests(tmp_path)) == 1


def test_f06_foreign_objects_are_refused_elsewhere(tmp_path: Path) -> None:
    """The same holds for a store that is no local folder."""
    import fsspec

    fsspec.filesystem("memory").pipe_file(f"{tmp_path}/photo.jpg", b"mine")
    with pytest.raises(OutputDiffers, match=r"no conversion wrote 'photo\.jpg'"):
        convert(Numbered(20), f"memory:/{tmp_path}", SMALL)


def test_damaged_manifest_is_named(tmp_path: Path) -> None:
    """A manifest that cannot be read is neither overwritten nor taken for another dataset's."""
    convert(Numbered(20), str(tmp_path), SMALL)
    (tmp_path / "dataset.json").write_bytes(b"{}")
    with pytest.raises(CorruptIndex, match=r"dataset\.json"):
        convert(Numbered(20), str(tmp_path), SMALL)


@pytest.mark.skipif(os.geteuid() == 0, reason="NOT TESTED: root may write anywhere")
def test_destination_not_writable_is_named(tmp_path: Path) -> None:
    """A folder without the right to write is an OutputError that names it."""
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(OutputError, match="cannot write to the destination"):
            convert(Numbered(20), str(tmp_path), SMALL)
    finally:
        tmp_path.chmod(0o700)


def test_destination_on_a_read_only_place_is_named() -> None:
    """A place where nobody may write, /proc, is an OutputError that names it."""
    with pytest.raises(OutputError, match=r"cannot write to the destination.*'/proc/datafeed'"):
        convert(Numbered(20), "/proc/datafeed", SMALL)


@pytest.mark.parametrize(
    ("source", "dest", "expected"),
    [
        ("raw", "raw", "lies in the source"),
        ("raw", "raw/out", "lies in the source"),
        ("raw", "link/out", "lies in the source"),
        ("raw", "raw/../raw/out", "lies in the source"),
        ("raw/a.csv", ".", "lies in the destination"),
        ("raw/a.csv", "raw", "lies in the destination"),
    ],
)
def test_source_and_destination_must_be_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, dest: str, expected: str
) -> None:
    """Neither may hold the other, whatever the way to write it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raw").mkdir()
    (tmp_path / "link").symlink_to("raw")
    with pytest.raises(ConfigError, match=expected):
        check_apart(source, dest)


@pytest.mark.parametrize(
    ("sources", "dest", "own", "expected"),
    [
        (["s3://a/b"], "s3://a/c", None, ("given", "given")),
        (["s3://a/b"], "s3://a/c", "own", ("given", "own")),
        (["s3://a/b"], "out", None, ("given", None)),
        (["raw", "s3://a/b"], "out", None, ("given", None)),
        (["raw"], "s3://a/c", None, (None, "given")),
        (["raw"], "s3://a/c", "own", (None, "own")),
        (["raw"], "out", None, ("given", "given")),
    ],
)
def test_storage_options_go_to_what_is_no_local_path(
    sources: list[str], dest: str, own: str | None, expected: tuple[str | None, str | None]
) -> None:
    """To both where both are far; where all is local, they stay, to be refused."""
    found = storage_of(sources, dest, {"for": "given"}, None if own is None else {"for": own})
    assert tuple(None if given is None else given["for"] for given in found) == expected


@pytest.mark.parametrize(("source", "dest"), [("raw", "raw2"), ("raw/a.csv", "raw/out"), ("raw", "memory://raw")])
def test_neighbours_are_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, dest: str) -> None:
    """A name that begins alike, a folder beside the file, or another store is apart."""
    monkeypatch.chdir(tmp_path)
    check_apart(source, dest)

"""Test a conversion from end to end, in this process."""

from __future__ import annotations

import dataclasses
import itertools
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from numbered import SCHEMA, Numbered, digests, records, rows_of

from datafeed.blockindex import read_index
from datafeed.converters.convert import ConvertOptions, Progress, convert, plan
from datafeed.converters.source import Chunk, OnBad, Unit
from datafeed.errors import BadItem, ConfigError, EmptySource, SourceChanged
from datafeed.manifest import read_manifest
from datafeed.storage import open_store
from datafeed.verify import verify

SMALL = ConvertOptions(shard_size=4000, block_size=700, workers=1)


def test_convert_keeps_every_row_in_order(tmp_path: Path) -> None:
    """All rows come back, in order, value for value, from a dataset that verifies; the report counts them."""
    source = Numbered(500)
    report = convert(source, str(tmp_path), SMALL)
    assert rows_of(str(tmp_path)) == [(row, source.expected(row)) for row in range(500)]
    assert verify(open_store(tmp_path)).problems == ()
    manifest = read_manifest(open_store(tmp_path))
    assert (report.records, report.shards, report.skipped, report.ran_on) == (500, len(manifest.shards), 0, "inline")
    assert (report.raw_bytes, report.stored_bytes) == (manifest.raw_bytes, manifest.nbytes)
    assert report.ratio > 1
    assert {path.name[:6] for path in tmp_path.iterdir()} == {"shard-", "datase", "blocks"}


def test_shards_end_at_the_boundary_nearest_to_the_size(tmp_path: Path) -> None:
    """Each shard but the last is as near to the size as a block more or less can bring it, so within half a block."""
    convert(Numbered(3000), str(tmp_path), dataclasses.replace(SMALL, shard_size=8000))
    store = open_store(tmp_path)
    index = read_index(store, read_manifest(store))
    sizes = [index.stored[index.shard == number].tolist() for number in range(index.shard[-1] + 1)]
    assert len(sizes) > 10
    for blocks, after in itertools.pairwise(sizes):
        away = abs(sum(blocks) - 8000)
        assert away <= abs(sum(blocks[:-1]) - 8000)
        assert away <= abs(sum(blocks) + after[0] - 8000)
        assert away <= max([*blocks, after[0]]) / 2


def test_provenance_holds_nothing_of_the_machine(tmp_path: Path) -> None:
    """Conversions with other workers, places and ways with bad items make the same bytes."""
    convert(Numbered(200), str(tmp_path / "a"), SMALL)
    convert(Numbered(200), str(tmp_path / "b"), dataclasses.replace(SMALL, on_error="skip"))
    assert digests(tmp_path / "a") == digests(tmp_path / "b")
    provenance = read_manifest(open_store(tmp_path / "a")).header.provenance
    assert set(provenance) == {"source", "kind", "options", "writer", "zstd", "listing"}


@pytest.mark.parametrize("limit", [1, 17, 50, 51, 237, 500, 900])
def test_limit_is_exact(tmp_path: Path, limit: int) -> None:
    """The first N records are converted, also where N cuts a block, a chunk or a task; all where there are fewer."""
    source = Numbered(500)
    report = convert(source, str(tmp_path), dataclasses.replace(SMALL, limit=limit))
    wanted = min(limit, 500)
    assert report.records == wanted
    assert rows_of(str(tmp_path)) == [(row, source.expected(row)) for row in range(wanted)]


@pytest.mark.parametrize(("letters", "level"), [(256, -1), (20, 1)])
def test_level_follows_the_data(tmp_path: Path, letters: int, level: int) -> None:
    """Bytes that do not compress take the fastest level; where level 3 gains nothing over 1, it is 1."""
    source = Numbered(300, blob=4000, letters=letters)
    assert convert(source, str(tmp_path), ConvertOptions(workers=1)).level == level
    assert read_manifest(open_store(tmp_path)).header.level == level


def test_level_given_is_kept(tmp_path: Path) -> None:
    """A level that is asked for is used, and recorded."""
    assert convert(Numbered(50), str(tmp_path), dataclasses.replace(SMALL, level=9)).level == 9


def test_path_is_opened_by_its_kind(tmp_path: Path) -> None:
    """A path is converted by what it holds, and is what the provenance names."""
    raw = tmp_path / "rows.csv"
    raw.write_text("x,blob\n" + "".join(f"{row},b{row}\n" for row in range(30)))
    for source in (raw, f"file://{raw}"):
        report = convert(source, tmp_path / "out")
        provenance = read_manifest(open_store(tmp_path / "out")).header.provenance
        assert (report.records, provenance["source"], provenance["kind"]) == (30, str(raw), "csv")


def test_one_record_makes_a_dataset(tmp_path: Path) -> None:
    """A single row becomes one shard of one block."""
    convert(Numbered(1), str(tmp_path), SMALL)
    (shard,) = read_manifest(open_store(tmp_path)).shards
    assert (shard.records, shard.blocks) == (1, 1)


def test_f08_zero_byte_values_round_trip(tmp_path: Path) -> None:
    """Rows whose blob is empty stay so."""
    convert(Numbered(40, blob=0), str(tmp_path), SMALL)
    assert rows_of(str(tmp_path)) == [(row, b"") for row in range(40)]


def test_f08_record_larger_than_a_shard_gets_its_own(tmp_path: Path) -> None:
    """At 100 bytes a shard and a block, each record makes a shard, whatever its size."""
    source = Numbered(20, blob=2000, letters=256)
    report = convert(source, str(tmp_path), ConvertOptions(shard_size=100, block_size=100, workers=1))
    assert rows_of(str(tmp_path)) == [(row, source.expected(row)) for row in range(20)]
    assert report.shards > 15


def test_f08_empty_source_is_refused(tmp_path: Path) -> None:
    """No rows at all is an error, and nothing is written."""
    with pytest.raises(EmptySource, match="expected at least one sample"):
        convert(Numbered(0), str(tmp_path / "out"), SMALL)
    assert not (tmp_path / "out").exists()


def test_memory_destination_works(tmp_path: Path) -> None:
    """A fsspec destination gets the bytes that a local one gets."""
    url = f"memory:/{tmp_path}"
    convert(Numbered(200), url, SMALL)
    convert(Numbered(200), str(tmp_path), SMALL)
    assert records(url) == records(str(tmp_path))
    names = open_store(url).names()
    assert names == sorted(digests(tmp_path))
    assert all(open_store(url).read(name) == (tmp_path / name).read_bytes() for name in names)


def test_bad_item_stops_and_finished_shards_stay(tmp_path: Path) -> None:
    """By default the first bad item is raised with its place; a rerun that skips it goes on from there."""
    source = Numbered(500, bad=frozenset({333, 400}))
    with pytest.raises(BadItem, match="rows:333: it is bad"):
        convert(source, str(tmp_path / "a"), SMALL)
    assert not (tmp_path / "a" / "dataset.json").exists()
    assert not list((tmp_path / "a").glob(".*"))
    report = convert(source, str(tmp_path / "a"), dataclasses.replace(SMALL, on_error="skip"))
    assert report.resumed > 0
    convert(source, str(tmp_path / "b"), dataclasses.replace(SMALL, on_error="skip"))
    assert digests(tmp_path / "a") == digests(tmp_path / "b")


def test_skip_counts_and_reports(tmp_path: Path) -> None:
    """Skipped items are counted per shard and in the report, with the first few reasons; the rest is kept."""
    bad = frozenset({0, 49, 50, 51, 300, *range(400, 500)})
    source = Numbered(500, bad=bad)
    report = convert(source, str(tmp_path), dataclasses.replace(SMALL, on_error="skip"))
    assert report.skipped == len(bad)
    assert report.reasons[:2] == ("rows:0: it is bad", "rows:49: it is bad")
    assert [row for row, _ in rows_of(str(tmp_path))] == [row for row in range(500) if row not in bad]
    manifest = read_manifest(open_store(tmp_path))
    assert manifest.skipped == len(bad)
    assert manifest.shards[0].skipped >= 1
    assert manifest.shards[-1].skipped >= 100


def test_quarantine_writes_bad_items_aside(tmp_path: Path) -> None:
    """Each bad item's bytes stand in a file that the index names, with its place and reason."""
    bad = frozenset({0, 7, 120, 499})
    report = convert(Numbered(500, bad=bad), str(tmp_path), dataclasses.replace(SMALL, on_error="quarantine"))
    lines = [json.loads(line) for line in (tmp_path / "quarantine" / "index.jsonl").read_text().splitlines()]
    assert [line["where"] for line in lines] == [f"rows:{row}" for row in sorted(bad)]
    assert {line["reason"] for line in lines} == {"it is bad"}
    assert [(tmp_path / line["file"]).read_bytes() for line in lines] == [b"bad %d" % row for row in sorted(bad)]
    assert report.skipped == 4


def test_all_bad_is_an_error_with_reasons(tmp_path: Path) -> None:
    """A source of which nothing is left is an error that counts and names the first reasons."""
    source = Numbered(30, bad=frozenset(range(30)))
    with pytest.raises(EmptySource, match="holds no sample: 30 bad items passed over; rows:0: it is bad; rows:1"):
        convert(source, str(tmp_path), dataclasses.replace(SMALL, on_error="skip"))


@dataclasses.dataclass(frozen=True)
class _Unreadable(Numbered):
    """Offer units of which the third cannot be read at all."""

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read a unit."""
        if unit.name == "rows#2":
            raise BadItem(unit.name, "permission denied")
        yield from super().read(unit, on_bad)


def test_unreadable_unit_is_one_bad_item(tmp_path: Path) -> None:
    """A unit that fails as a whole counts as one bad item; its neighbours are kept."""
    with pytest.raises(BadItem, match="rows#2: permission denied"):
        convert(_Unreadable(200), str(tmp_path / "a"), SMALL)
    report = convert(_Unreadable(200), str(tmp_path / "b"), dataclasses.replace(SMALL, on_error="skip"))
    assert (report.records, report.skipped) == (150, 1)


def test_f05_source_changed_while_converting(tmp_path: Path) -> None:
    """A file that grows meanwhile is an error that names it; no shard holds what was read of it."""
    raw, out = tmp_path / "raw", tmp_path / "out"
    raw.mkdir()
    for number in range(10):
        (raw / str(number)).write_bytes(b"x")

    def spoil(progress: Progress) -> None:
        if progress.records:
            (raw / "9").write_bytes(b"xy")

    source = Numbered(500, folder=str(raw), read_s=0.02)
    with pytest.raises(SourceChanged, match=r"raw/9 changed while it was converted: listed with 1 byte"):
        convert(source, str(out), SMALL, on_progress=spoil)
    assert not (out / "dataset.json").exists()
    assert not list(out.glob(".*"))


def test_f05_source_file_gone_while_converting(tmp_path: Path) -> None:
    """A file that was listed and is gone is SourceChanged too."""
    for number in range(2):
        (tmp_path / str(number)).write_bytes(b"x")
    source = Numbered(100, folder=str(tmp_path))
    (units := source.units())[1]
    (tmp_path / "1").unlink()
    with pytest.raises(SourceChanged, match="1 was listed, and is gone"):
        convert(_Listed(100, folder=str(tmp_path), listed=tuple(units)), f"memory:/{tmp_path}", SMALL)


@dataclasses.dataclass(frozen=True)
class _Listed(Numbered):
    """Offer units that were listed before."""

    listed: tuple[Unit, ...] = ()

    def units(self) -> tuple[Unit, ...]:
        """List the units."""
        return self.listed


def test_plan_writes_nothing_and_estimates(tmp_path: Path) -> None:
    """A dry run leaves no trace, and its estimates come near what a conversion then finds."""
    source = Numbered(1000, unit_rows=100, claim=10_700)
    made = plan(source, str(tmp_path / "out"), SMALL)
    assert not (tmp_path / "out").exists()
    report = convert(source, str(tmp_path / "out"), SMALL)
    assert made.schema == SCHEMA
    assert made.level == report.level
    assert made.records == pytest.approx(report.records, rel=0.2)
    assert made.raw_bytes == pytest.approx(report.raw_bytes, rel=0.2)
    assert made.shards == pytest.approx(report.shards, rel=0.3)


def test_progress_reaches_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Counts never fall, the last call has all records and no time left, and nothing is logged."""
    seen: list[Progress] = []
    with caplog.at_level(logging.WARNING):
        convert(Numbered(500, read_s=0.02), str(tmp_path), SMALL, on_progress=seen.append)
    assert [p.records for p in seen] == sorted(p.records for p in seen)
    assert (seen[-1].records, seen[-1].eta_s) == (500, 0.0)
    assert not caplog.records


@pytest.mark.parametrize(
    "wrong",
    [
        {"level": 23},
        {"workers": 0},
        {"limit": 0},
        {"block_size": "2GiB"},
        {"on_error": "ask"},
        {"shard_size": "many"},
        {"types": {"x": "int"}},
    ],
)
def test_option_out_of_bounds_is_refused(wrong: dict[str, object]) -> None:
    """Each option checks itself, and names itself."""
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        ConvertOptions(**wrong)  # type: ignore[arg-type]  # that is the point

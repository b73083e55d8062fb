"""Prove that workloads are the same bytes each time, and of the kind that they stand for."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow.parquet as pq
import pytest
import simplejpeg

from datafeed.bench.workloads import STAMP, VERSION, Name, find, make, zipf_quantiles
from datafeed.errors import ConfigError

NAMES = get_args(Name)


def digest(folder: Path) -> str:
    """Hash all files of a folder with their names."""
    total = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        total.update(str(path.relative_to(folder)).encode())
        total.update(path.read_bytes())
    return total.hexdigest()


@pytest.mark.parametrize("name", NAMES)
def test_make_gives_the_same_bytes_for_a_seed(name: Name, tmp_path: Path) -> None:
    """Two makings agree in every byte, another seed in the checksum neither."""
    count = 20 if name == "images" else 500
    first, second = (make(name, tmp_path / part, count, seed=3) for part in "ab")
    assert digest(tmp_path / "a") == digest(tmp_path / "b")
    assert first.checksum == second.checksum
    assert make(name, tmp_path / "c", count, seed=4).checksum != first.checksum


def test_make_returns_what_lies_there_when_called_again(tmp_path: Path) -> None:
    """A second call writes nothing, and `find` returns the same."""
    made = make("tokens", tmp_path / "t", 50)
    before = made.source.stat().st_mtime_ns
    assert make("tokens", tmp_path / "t", 50) == made == find(tmp_path / "t")
    assert made.source.stat().st_mtime_ns == before


def test_make_begins_again_when_it_was_cut_short(tmp_path: Path) -> None:
    """A stamp without a checksum is of a making that was killed: what it left is replaced."""
    folder = tmp_path / "t"
    folder.mkdir()
    (folder / STAMP).write_text(f'{{"name": "tokens", "count": 50, "seed": 0, "version": {VERSION}}}')
    (folder / "tokens.parquet").write_bytes(b"half")
    with pytest.raises(ConfigError, match="no whole workload"):
        find(folder)
    assert pq.read_metadata(make("tokens", folder, 50).source).num_rows == 50


def test_make_refuses_a_folder_that_holds_something_else(tmp_path: Path) -> None:
    """Nobody's files are deleted."""
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match="no workload made"):
        make("tokens", tmp_path, 5)
    assert (tmp_path / "mine.txt").exists()


@pytest.mark.parametrize(("name", "count"), [("nothing", 1), ("tokens", 0)])
def test_make_refuses_arguments_out_of_range(name: Name, count: int, tmp_path: Path) -> None:
    """An unknown name and an empty workload are errors."""
    with pytest.raises(ConfigError, match="expected one of"):
        make(name, tmp_path, count)


def test_images_are_jpegs_of_the_size_asked_for(tmp_path: Path) -> None:
    """Each of 100 classes gets its share of 256x256 JPEGs of about 25 KB."""
    files = sorted(make("images", tmp_path, 103).source.glob("*/*.jpg"))
    assert len(files) == 103
    assert len({path.parent for path in files}) == 100
    assert 22_000 < np.mean([path.stat().st_size for path in files]) < 28_000
    assert simplejpeg.decode_jpeg(files[0].read_bytes(), "RGB").shape == (256, 256, 3)


def test_tokens_are_the_same_in_parquet_and_npy(tmp_path: Path) -> None:
    """The parquet file holds fixed-size lists in row groups; the npy file the same rows."""
    table = pq.ParquetFile(make("tokens", tmp_path, 5_000).source)
    assert str(table.schema_arrow.field("tokens").type).startswith("fixed_size_list<element: uint16>[1025]")
    assert table.num_row_groups == 2
    rows = np.load(tmp_path / "tokens.npy")
    found = table.read().column("tokens").combine_chunks().flatten().to_numpy().reshape(rows.shape)
    assert np.array_equal(found, rows)
    assert (rows == 0).mean() == pytest.approx(2 * (rows == 1).mean(), rel=0.02)


def test_tabular_has_forty_columns_of_the_ranges_asked_for(tmp_path: Path) -> None:
    """13 float32, 26 int64 below 2**20 and a label of 0 or 1."""
    table = pq.read_table(make("tabular", tmp_path, 70_000).source)
    types = [str(field.type) for field in table.schema]
    assert types == ["int64"] + ["float"] * 13 + ["int64"] * 26
    assert set(table.column("label").unique().to_pylist()) == {0, 1}
    ids = np.stack([table.column(f"id_{number:02d}").to_numpy() for number in range(26)])
    assert 0 <= ids.min() <= ids.max() < 2**20
    assert len(np.unique(ids[19])) == 4


def test_zipf_quantiles_fall_as_the_ranks_rise() -> None:
    """Rank r is drawn 1/r as often as the first, and none of them never."""
    counts = np.bincount(zipf_quantiles(50_000, 2**22))
    assert counts.sum() == 2**22
    assert counts.min() > 0
    assert counts[0] == pytest.approx(10 * counts[9], rel=0.01)

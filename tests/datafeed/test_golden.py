"""The golden datasets of version 1: read for ever, and written again byte for byte."""

from __future__ import annotations

from pathlib import Path

import golden_data
import make_golden
import numpy as np
import pytest

from datafeed._native import Parser
from datafeed.blockindex import read_index
from datafeed.frames import zstd_version
from datafeed.manifest import read_manifest
from datafeed.reader import BlockReader
from datafeed.storage import open_store
from datafeed.verify import verify


@pytest.mark.parametrize(("name", "rows", "blocks"), [("forms-v1", 40, 14), ("plain-v1", 6, 3)])
def test_golden_dataset_reads_value_for_value(name: str, rows: int, blocks: int) -> None:
    """Every form of feature, missing and empty ones too, comes back as the literal that it was written from."""
    store = open_store(make_golden.GOLDEN / name)
    manifest = read_manifest(store)
    assert manifest.schema == golden_data.SCHEMA
    index = read_index(store, manifest)
    assert (manifest.records, len(index)) == (rows, blocks)
    reader = BlockReader(store, manifest, index)
    features = list(manifest.schema)
    found = [reader.read(number) for number in range(blocks)]
    which = np.repeat(np.arange(blocks, dtype=np.int32), [len(block) for block in found])
    within = np.concatenate([np.arange(len(block), dtype=np.int32) for block in found])
    columns = Parser(features).parse(found, which, within)
    for feature, column in zip(features, columns, strict=True):
        expected = [row[feature.name] for row in golden_data.ROWS[:rows]]
        assert golden_data.from_column(feature, column, rows) == expected, feature.name


@pytest.mark.parametrize("name", ["forms-v1", "plain-v1"])
def test_golden_dataset_is_whole(name: str) -> None:
    """No file of it has changed since it was committed."""
    report = verify(open_store(make_golden.GOLDEN / name))
    assert report.problems == ()


def test_golden_datasets_are_small() -> None:
    """They stay in the repository for ever."""
    assert sum(file.stat().st_size for file in make_golden.GOLDEN.rglob("*") if file.is_file()) < 100_000


def test_writing_again_gives_the_same_bytes(tmp_path: Path) -> None:
    """The writer of today makes the files of version 1 byte for byte."""
    written = read_manifest(open_store(make_golden.GOLDEN / "forms-v1")).header.provenance["zstd"]
    if written != zstd_version():
        pytest.skip(f"NOT TESTED: the golden datasets are of libzstd {written}, this one is {zstd_version()}")
    make_golden.write_forms(tmp_path)
    names = open_store(tmp_path).names()
    assert names == open_store(make_golden.GOLDEN / "forms-v1").names()
    for name in names:
        assert (tmp_path / name).read_bytes() == (make_golden.GOLDEN / "forms-v1" / name).read_bytes(), name

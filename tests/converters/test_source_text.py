"""Test reading documents as token ids."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pytest
import zstandard
from pyarrow import parquet
from small_tokenizer import byte_level, ids_of, saved
from source_contract import Row, SourceContract, check_form, rows_of

from datafeed import Dataset
from datafeed.converters import lines, plan, text
from datafeed.converters.convert import ConvertOptions, convert
from datafeed.converters.detect import open_source
from datafeed.converters.options import SourceOptions
from datafeed.converters.tasks import cut_tasks
from datafeed.converters.text import Text
from datafeed.errors import BadItem, ConfigError, EmptySource

END = [0]
WORDS = ("the quick fox", "jumps", "", "over the lazy dog é 日本", "pack my box with five dozen liquor jugs")


@pytest.fixture(scope="session")
def asked(tmp_path_factory: pytest.TempPathFactory) -> SourceOptions:
    """Options with a tokenizer whose end of text is id 0."""
    return SourceOptions(tokenizer=saved(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"))


def read(path: Path | str, asked: SourceOptions) -> tuple[list[list[int]], list[BadItem]]:
    """Read all of a source to lists of ids, with its bad items, checking the form of every column."""
    source, bad = Text(str(path), asked), []
    features = source.schema().features
    rows: list[Row] = []
    for unit in source.units():
        for chunk in source.read(unit, bad.append):
            check_form(features[0], chunk.columns["tokens"], chunk.rows)
            rows += rows_of(features, chunk)
    return [np.array(row["tokens"]).tolist() for row in rows], bad


def write_jsonl(path: Path, documents: Sequence[object], column: str = "text") -> None:
    """Write a document a line."""
    path.write_text("".join(json.dumps({"n": n, column: one}) + "\n" for n, one in enumerate(documents)))


def write_parquet(path: Path, documents: Sequence[str | None], column: str = "text") -> None:
    """Write two documents a row group."""
    parquet.write_table(pa.table({"n": range(len(documents)), column: documents}), path, row_group_size=2)


class TestText(SourceContract):
    """Hold a folder of txt, jsonl and parquet files to what every source promises."""

    @pytest.fixture(autouse=True)
    def _tokenizer(self, asked: SourceOptions) -> None:
        self.asked = asked

    def open(self, path: Path) -> Text:
        """Open it."""
        return Text(str(path), self.asked)

    def write(self, folder: Path) -> list[Row]:
        """Write a file of each form, and files of 0 bytes or blank lines among them."""
        (folder / "a.txt").touch()
        (folder / "b.txt").write_bytes("\ufeffthe fox\r\n \r\n\n five\tjugs ".encode())
        write_jsonl(folder / "c.jsonl", WORDS)
        write_parquet(folder / "d.parquet", WORDS)
        (folder / "e.txt.gz").write_bytes(gzip.compress(b"liquor\n"))
        (folder / "f.jsonl.zst").write_bytes(zstandard.compress(b'{"text": "lazy"}\n'))
        (folder / "g.txt").write_text("\n\n")
        write_parquet(folder / "h.parquet", [])
        documents = ["the fox", " five\tjugs ", *WORDS, *WORDS, "liquor", "lazy"]
        return [{"tokens": ids_of(document) + END} for document in documents]

    def spoil(self, folder: Path) -> tuple[str, str, list[Row]]:
        """Make the second line of the first file with documents no UTF-8."""
        good = self.write(folder)
        (folder / "b.txt").write_bytes(b"the fox\nfive \xff\n")
        return "b.txt:2", "expected text as UTF-8", good[:1] + good[2:]


Writer = Callable[[Path, Sequence[str]], None]
FORMS: dict[str, Writer] = {
    "a.txt": lambda path, documents: path.write_text("\n".join(documents)) and None,
    "a.jsonl": write_jsonl,
    "a.parquet": write_parquet,
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("tail", ["keep", "drop"])
def test_documents_are_packed_end_to_end(tmp_path: Path, asked: SourceOptions, name: str, tail: str) -> None:
    """Each with the end behind it; only the last sample is shorter, or there is none."""
    documents = [word for word in WORDS if word] * 3
    FORMS[name](tmp_path / name, documents)
    found, bad = read(tmp_path, replace(asked, seq_len=8, tail=tail))
    whole = [number for document in documents for number in ids_of(document) + END]
    assert not bad
    assert len(whole) % 8
    expected = [whole[start : start + 8] for start in range(0, len(whole), 8)]
    assert found == expected[: None if tail == "keep" else -1]


@pytest.mark.parametrize("tail", ["keep", "drop"])
def test_one_document_makes_samples_of_its_own(tmp_path: Path, asked: SourceOptions, tail: str) -> None:
    """Cut to `seq_len` where one is given; without the separator where none is wanted."""
    write_jsonl(tmp_path / "a.jsonl", WORDS)
    found, _ = read(tmp_path, replace(asked, seq_len=5, one_document=True, tail=tail, separator=""))
    pieces = [ids[start : start + 5] for ids in map(ids_of, WORDS) for start in range(0, max(len(ids), 1), 5)]
    assert found == [piece for piece in pieces if tail == "keep" or len(piece) == 5]


@pytest.mark.parametrize("nbytes", [1, 60, 10**6])
def test_packing_stays_within_a_unit(
    tmp_path: Path, asked: SourceOptions, monkeypatch: pytest.MonkeyPatch, nbytes: int
) -> None:
    """A unit takes parts of several files until it is large enough; all ids are there, in order."""
    monkeypatch.setattr(lines, "UNIT_NBYTES", 60)
    monkeypatch.setattr(text, "UNIT_NBYTES", nbytes)
    monkeypatch.setattr(text, "_UNIT_SAMPLES", 0)
    documents = [f"the fox {number}" for number in range(20)]
    (tmp_path / "a.txt").write_text("\n".join(documents[:10]))
    write_jsonl(tmp_path / "b.jsonl", documents[10:12])
    write_parquet(tmp_path / "c.parquet", documents[12:])
    source = Text(str(tmp_path), replace(asked, seq_len=7))
    runs = [[rows_of(source.schema().features, chunk) for chunk in source.read(u, _refuse)] for u in source.units()]
    samples = [[np.array(row["tokens"]).tolist() for rows in run for row in rows] for run in runs]
    assert [number for unit in samples for ids in unit for number in ids] == [
        number for document in documents for number in ids_of(document) + END
    ]
    assert all(len(ids) == 7 for unit in samples for ids in unit[:-1])
    assert (len(samples) == 1) == (nbytes == 10**6)
    assert any(len(unit.files) > 1 for unit in source.units()) == (nbytes > 1)


def _refuse(item: BadItem) -> None:
    raise item


def test_a_unit_is_large_beside_a_sample(tmp_path: Path, asked: SourceOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what its tail loses is a small part of it."""
    monkeypatch.setattr(lines, "UNIT_NBYTES", 100)
    monkeypatch.setattr(text, "UNIT_NBYTES", 100)
    (tmp_path / "a.txt").write_text("the quick brown fox\n" * 2000)
    counts = {seq_len: len(Text(str(tmp_path), replace(asked, seq_len=seq_len)).units()) for seq_len in (None, 1, 10)}
    assert counts[None] > counts[1] > counts[10] > 1


def test_units_are_estimated_by_their_ids(tmp_path: Path, asked: SourceOptions) -> None:
    """Four bytes of text are about one, here of uint16; a packed file grows by four."""
    (tmp_path / "a.txt").write_text("the quick brown fox\n" * 2000)
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"fox"))
    packed = (tmp_path / "b.txt.gz").stat().st_size
    assert [unit.nbytes for unit in Text(str(tmp_path), asked).units()] == [(40_000 + 4 * packed) // 2]


def test_documents_that_cannot_be_encoded_are_bad_items(tmp_path: Path, asked: SourceOptions) -> None:
    """With file, line and bytes; those around them are packed as if they were not there."""
    (tmp_path / "a.jsonl").write_text('{"text": "fox"}\n{"text": "\\ud800"}\n{"text": "dog"}\n')
    found, bad = read(tmp_path, replace(asked, seq_len=100))
    assert found == [ids_of("fox") + END + ids_of("dog") + END]
    assert [(item.where, item.data) for item in bad] == [(f"{tmp_path / 'a.jsonl'}:2", b"\\ud800")]
    assert "half of a surrogate pair" in bad[0].reason


def test_the_tokenizer_among_the_data_is_no_document(tmp_path: Path, asked: SourceOptions) -> None:
    """By whatever path it is named."""
    saved(tmp_path / "tokenizer.json")
    with pytest.raises(EmptySource, match=r"no file ends in .txt"):
        Text(str(tmp_path), replace(asked, tokenizer=os.path.relpath(tmp_path / "tokenizer.json"))).schema()
    (tmp_path / "a.txt").write_text("fox")
    assert read(tmp_path, replace(asked, tokenizer=str(tmp_path / "tokenizer.json")))[0] == [ids_of("fox") + END]


def test_a_source_without_documents_is_refused(tmp_path: Path, asked: SourceOptions) -> None:
    """Files without a byte or a row."""
    (tmp_path / "a.txt").touch()
    write_parquet(tmp_path / "b.parquet", [])
    with pytest.raises(EmptySource, match="no file holds a document"):
        Text(str(tmp_path), asked).units()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"tokenizer": None}, "--tokenizer FILE"),
        ({"seq_len": 0}, "seq_len must be at least 1, found 0"),
        ({"seq_len": 5, "tail": "pad"}, "tail must be one of keep, drop, found 'pad'"),
        ({"tail": "drop"}, "without seq_len each document is a sample"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    tmp_path: Path, asked: SourceOptions, options: dict[str, object], reason: str
) -> None:
    """Before anything is read."""
    with pytest.raises(ConfigError, match=reason):
        Text(str(tmp_path), replace(asked, **options))


def test_a_tokenizer_makes_it_text(tmp_path: Path, asked: SourceOptions) -> None:
    """Whatever the files are; another kind that is asked for has no use for one."""
    write_jsonl(tmp_path / "a.jsonl", WORDS)
    assert open_source(str(tmp_path), None, asked).kind == "text"
    with pytest.raises(ConfigError, match=r"tokenizer \(--tokenizer\) has no effect on jsonl"):
        open_source(str(tmp_path), "jsonl", asked)
    with pytest.raises(ConfigError, match="--tokenizer FILE"):
        open_source(str(tmp_path), "text", SourceOptions())


def test_notes_say_what_is_lost(tmp_path: Path, asked: SourceOptions) -> None:
    """At most, by the number of units; and what the documents are where files differ."""
    write_jsonl(tmp_path / "a.jsonl", WORDS)
    write_jsonl(tmp_path / "b.jsonl", WORDS)
    (tmp_path / "c.txt").write_text("fox")
    assert Text(str(tmp_path), replace(asked, seq_len=1000, tail="drop")).notes() == [
        "each document ends with '<|endoftext|>', id 0",
        "up to 999 ids are dropped, which fill no sample: 999 at most in each of 1 units",
        "documents come from 2 jsonl files, 1 txt file",
    ]
    alone = replace(asked, seq_len=10, tail="drop", one_document=True, separator="")
    assert Text(str(tmp_path / "c.txt"), alone).notes() == [
        "nothing stands between documents",
        "of each document up to 9 ids are dropped, which fill no sample",
    ]


def test_files_and_tokenizer_may_lie_anywhere(asked: SourceOptions) -> None:
    """Each file system that fsspec knows is read."""
    fs = fsspec.filesystem("memory")
    fs.pipe("/texts/a.txt", b"fox\ndog\n")
    fs.pipe("/texts/tokenizer.json", byte_level("<|endoftext|>").to_str().encode())
    try:
        found, bad = read("memory://texts", replace(asked, tokenizer="memory://texts/tokenizer.json"))
    finally:
        fs.rm("/texts", recursive=True)
    assert (found, bad) == ([ids_of("fox") + END, ids_of("dog") + END], [])


@pytest.mark.parametrize("tail", ["keep", "drop"])
def test_the_bytes_are_the_same_for_any_number_of_workers(
    tmp_path: Path, asked: SourceOptions, monkeypatch: pytest.MonkeyPatch, ray_workers: int, tail: str
) -> None:
    """Inline and on Ray; a worker has the tokenizer from the source, and one core."""
    assert ray_workers > 1
    monkeypatch.setattr(lines, "UNIT_NBYTES", 2000)
    monkeypatch.setattr(text, "UNIT_NBYTES", 2000)
    monkeypatch.setattr(text, "_UNIT_SAMPLES", 0)
    monkeypatch.setattr(plan, "cut_tasks", partial(cut_tasks, nbytes=2500))
    documents = [f"{WORDS[n % 5]} {n}" for n in range(600)]
    write_jsonl(tmp_path / "a.jsonl", documents)
    source = Text(str(tmp_path / "a.jsonl"), replace(asked, seq_len=16, tail=tail))
    assert len(source.units()) > 8
    made = {}
    for workers, ran_on in ((1, "inline"), (2, "ray")):
        report = convert(
            source, tmp_path / str(workers), ConvertOptions(workers=workers, ray_address="auto", block_size="4KB")
        )
        assert report.ran_on == ran_on
        made[workers] = {path.name: path.read_bytes() for path in (tmp_path / str(workers)).iterdir()}
    assert made[1] == made[2]
    found = [sample["tokens"].tolist() for sample in Dataset(str(tmp_path / "1"))]
    assert found == read(tmp_path / "a.jsonl", replace(asked, seq_len=16, tail=tail))[0]

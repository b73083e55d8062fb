"""Test reading what Hugging Face's datasets library wrote: saved datasets, and parquet files."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import fsspec
import pyarrow as pa
import pytest
from source_contract import Row, SourceContract, rows_of

from datafeed.converters.detect import open_source
from datafeed.converters.encode import read_chunks
from datafeed.converters.huggingface import SavedDataset
from datafeed.converters.options import SourceOptions
from datafeed.converters.source import Source
from datafeed.errors import BadItem, ConfigError, EmptySource, SourceError

PLAIN = SourceOptions()
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def read(source: Source) -> tuple[list[Row], list[BadItem]]:
    """Read all of a source, with its bad items."""
    bad: list[BadItem] = []
    features = source.schema().features
    return [row for chunk in read_chunks(source, source.units(), bad.append) for row in rows_of(features, chunk)], bad


@pytest.mark.usefixtures("hf")
class TestSavedDataset(SourceContract):
    """Hold a saved dataset to what every source promises."""

    def open(self, path: Path) -> SavedDataset:
        """Open it."""
        return SavedDataset(str(path), PLAIN)

    def write(self, folder: Path) -> list[Row]:
        """Write three files."""
        return save(folder, [list(range(i % 4)) for i in range(7)])

    def spoil(self, folder: Path) -> tuple[str, str, list[Row]]:
        """Put a null into a list of the second file."""
        rows = save(folder, [[1], [2], [3], [4, None], [5], [6], [7]])
        return "data-00001-of-00003.arrow:0", "null in its list", rows[:3] + rows[4:]


def save(folder: Path, few: list[list[int | None]]) -> list[Row]:
    """Save a dataset in three files."""
    import datasets

    rows: list[Row] = [{"id": i, "text": f"é{i}" if i % 3 else None, "few": one} for i, one in enumerate(few)]
    features = {"id": datasets.Value("int64"), "text": datasets.Value("string")}
    features["few"] = datasets.List(datasets.Value("int16"))
    datasets.Dataset.from_list(rows, datasets.Features(features)).save_to_disk(folder, num_shards=3)
    return rows


def test_translations_are_texts(tmp_path: Path, hf: ModuleType) -> None:
    """One a language; lists of languages and texts where they vary."""
    features = {"t": hf.Translation(["en", "fr"]), "v": hf.TranslationVariableLanguages(["en", "fr"])}
    rows = [{"t": {"en": "a", "fr": "é"}, "v": {"en": ["a", "b"], "fr": "c"}}]
    hf.Dataset.from_list(rows, hf.Features(features)).save_to_disk(tmp_path)
    assert read(SavedDataset(str(tmp_path), PLAIN))[0] == [
        {"t.en": "a", "t.fr": "é", "v.language": ["en", "en", "fr"], "v.translation": ["a", "b", "c"]}
    ]


def test_paths_stand_for_files_beside_the_dataset(tmp_path: Path, hf: ModuleType) -> None:
    """Bytes that lack are read there; a path that leads out of the folder, or nowhere, is a bad item."""
    image = [{"bytes": PNG, "path": "x"}, {"bytes": None, "path": "in.png"}, {"bytes": None, "path": "../out.png"}]
    image += [{"bytes": None, "path": "https://host/a.png"}, {"bytes": None, "path": "gone.png"}, {"path": None}]
    data = tmp_path / "data"
    write_raw(data, image, hf)
    (data / "in.png").write_bytes(PNG + b"in")
    (tmp_path / "out.png").write_bytes(PNG)
    rows, bad = read(SavedDataset(str(data), SourceOptions(columns=("img",))))
    assert rows == [{"img": PNG}, {"img": PNG + b"in"}, {"img": None}]
    assert [item.where.rpartition(":")[2] for item in bad] == ["2", "3", "4"]
    assert ["is not in the folder" in item.reason for item in bad] == [True, True, False]
    assert "has a path, '../out.png', which" in bad[0].reason


def write_raw(folder: Path, images: list[dict[str, object]], hf: ModuleType) -> None:
    """Write a saved dataset's files without the library, which would embed the images."""
    folder.mkdir()
    schema = hf.Features({"img": hf.Image()}).arrow_schema
    with pa.ipc.new_stream(folder / "data.arrow", schema) as out:
        out.write_table(pa.table([pa.array(images, schema.field("img").type)], schema=schema))
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data.arrow"}]}))


def test_a_dataset_of_splits_is_refused_with_their_names(tmp_path: Path, hf: ModuleType) -> None:
    """Each is a dataset of its own."""
    one = hf.Dataset.from_dict({"x": [1]})
    hf.DatasetDict(train=one, test=one).save_to_disk(tmp_path / "d")
    with pytest.raises(SourceError, match=r"each split by itself: .*/d/train, .*/d/test"):
        open_source(str(tmp_path / "d"), None, PLAIN).units()
    assert read(open_source(str(tmp_path / "d" / "test"), None, PLAIN)) == ([{"x": 1}], [])


def test_files_are_read_in_the_order_of_the_state(tmp_path: Path, hf: ModuleType) -> None:
    """Not in that of their names; files that it does not name are none of the dataset's."""
    hf.Dataset.from_dict({"x": list(range(6))}).save_to_disk(tmp_path, num_shards=3)
    state = json.loads((tmp_path / "state.json").read_text())
    state["_data_files"] = [state["_data_files"][2], state["_data_files"][0]]
    (tmp_path / "state.json").write_text(json.dumps(state))
    assert [row["x"] for row in read(SavedDataset(str(tmp_path), PLAIN))[0]] == [4, 5, 0, 1]


FILE = '[{"filename": "a.arrow"}]'


@pytest.mark.parametrize(
    ("state", "error", "text"),
    [
        (f'{{"_data_files": {FILE}, "_indices_files": {FILE}}}', SourceError, "flatten_indices"),
        (f'{{"_data_files": [], "_indices_data_files": {FILE}}}', SourceError, "flatten_indices"),
        ('{"_data_files": [{"filename": "../a.arrow"}]}', SourceError, "does not name the files"),
        ('{"_data_files": [{"filename": 1}]}', SourceError, "does not name the files"),
        ('{"_data_files": "a.arrow"}', SourceError, "does not name the files"),
        ('{"_data_files": []}', EmptySource, "no row"),
        ("[]", SourceError, "expected a JSON object"),
        ("{", SourceError, "is no JSON"),
        (f'{{"_data_files": {FILE}}}', SourceError, r"a\.arrow"),
    ],
)
def test_states_that_name_no_rows_are_refused(tmp_path: Path, state: str, error: type[Exception], text: str) -> None:
    """By what is wrong with them; a file out of the folder is never opened."""
    (tmp_path / "state.json").write_text(state)
    with pytest.raises(error, match=text):
        SavedDataset(str(tmp_path), PLAIN).units()


def test_a_folder_without_a_state_is_refused(tmp_path: Path) -> None:
    """It says what was expected."""
    with pytest.raises(SourceError, match=r"no state\.json: expected a folder that save_to_disk wrote"):
        SavedDataset(str(tmp_path), PLAIN).units()


def test_a_dataset_at_a_url_is_read(tmp_path: Path, hf: ModuleType) -> None:
    """With its images beside it."""
    memory = fsspec.filesystem("memory")
    images = pa.array(
        [{"path": "in.png"}, {"path": "../x.png"}], pa.struct({"bytes": pa.binary(), "path": pa.string()})
    )
    write_raw(tmp_path / "data", images, hf)
    try:
        memory.put(str(tmp_path / "data"), "/hf", recursive=True)
        memory.pipe("/hf/in.png", PNG)
        rows, bad = read(open_source("memory://hf", None, PLAIN))
        assert rows == [{"img": PNG, "img.path": "in.png"}]
        assert "not in the folder" in bad[0].reason
    finally:
        memory.rm("/hf", recursive=True)


def test_a_column_that_is_not_there_is_refused(tmp_path: Path, hf: ModuleType) -> None:
    """With those there are."""
    hf.Dataset.from_dict({"x": [1], "y": ["a"]}).save_to_disk(tmp_path)
    with pytest.raises(ConfigError, match=r"no feature 'z' .*; there are x, y"):
        SavedDataset(str(tmp_path), SourceOptions(columns=("z",))).schema()

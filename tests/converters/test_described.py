"""Test what the metadata of Hugging Face's datasets library make of columns."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest
from source_contract import Row, rows_of

from datafeed import Dataset
from datafeed.converters.convert import convert
from datafeed.converters.described import array_kind, below, classes_of, features_of, media_of
from datafeed.converters.detect import open_source
from datafeed.converters.encode import read_chunks
from datafeed.converters.huggingface import SavedDataset
from datafeed.converters.options import SourceOptions
from datafeed.converters.source import Source
from datafeed.errors import BadItem, SourceError
from datafeed.schema import Feature

PLAIN = SourceOptions()
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def read(source: Source) -> tuple[list[Row], list[BadItem]]:
    """Read all of a source, with its bad items."""
    bad: list[BadItem] = []
    features = source.schema().features
    return [row for chunk in read_chunks(source, source.units(), bad.append) for row in rows_of(features, chunk)], bad


def facets(source: Source) -> dict[str, tuple[object, ...]]:
    """Return what a test looks at of each feature."""
    return {f.name: (f.dtype, f.shape, f.media, f.classes) for f in source.schema()}


def made(hf: ModuleType, columns: dict[str, list[object]], features: dict[str, object]) -> object:
    """Return a dataset from values as they are stored: datasets would want libraries to look into files."""
    known = hf.Features(features)
    kinds = known.arrow_schema
    arrays = [_array(columns[field.name], field.type) for field in kinds]
    return hf.Dataset(pa.table(arrays, schema=kinds))


def _array(values: list[object], kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    return pa.array(values, kind)


def many_kinds(hf: ModuleType) -> tuple[object, list[Row], dict[str, tuple[object, ...]]]:
    """Return a dataset of most kinds of features, its samples, and what the features should be."""
    value = hf.Value
    features = {
        "label": hf.ClassLabel(names=["cat", "dog"]),
        "labels": hf.List(hf.ClassLabel(names=["p", "q"])),
        "img": hf.Image(decode=False),
        "snd": hf.Audio(decode=False),
        "few": hf.List(value("int32")),
        "pair": hf.List(value("float32"), length=2),
        "flat": hf.Array2D((2, 3), "int16"),
        "deep": hf.Array4D((1, 2, 1, 2), "float32"),
        "grows": hf.Array2D((None, 2), "int8"),
        "nest": {"x": value("int64"), "y": {"z": value("string")}},
        "spans": {"at": hf.List(value("int8")), "kind": hf.List(hf.ClassLabel(names=["n", "v"]))},
        "when": value("timestamp[us, tz=Europe/Paris]"),
    }
    columns: dict[str, list[object]] = {
        "label": [0, 1, 0],
        "labels": [[0], [], [1, 0]],
        "img": [{"bytes": PNG + bytes([i]), "path": f"{i}.png"} for i in range(3)],
        "snd": [{"bytes": b"RIFF", "path": None}, None, {"bytes": b"fLaC", "path": "b.flac"}],
        "few": [[1, 2], [], [3]],
        "pair": [[0.5, 1.0], [2.0, 3.0], [4.0, 5.0]],
        "flat": [[[i, 2, 3], [4, 5, 6]] for i in range(3)],
        "deep": [[[[[1.0, 2.0]], [[3.0, 4.0]]]]] * 3,
        "grows": [[[1, 2]], [[3, 4], [5, 6]], []],
        "nest": [{"x": 1, "y": {"z": "a"}}, {"x": 2, "y": {"z": "b"}}, {"x": 3, "y": {"z": None}}],
        "spans": [{"at": [1], "kind": [0]}, {"at": [], "kind": []}, {"at": [2, 3], "kind": [1, 0]}],
        "when": [0, 1, 2**40],
    }
    plain = {"bytes": "", "path": ".path"}
    rows: list[Row] = []
    for row in range(3):
        sample: Row = {}
        for name in ("label", "labels"):
            sample[name] = columns[name][row]
        for name in ("img", "snd"):
            file = columns[name][row] or {}
            assert isinstance(file, dict)
            sample |= {name + end: file.get(key) for key, end in plain.items()}
        for name in ("few", "pair", "flat", "deep", "grows"):
            sample[name] = columns[name][row]
        nest, spans = columns["nest"][row], columns["spans"][row]
        assert isinstance(nest, dict)
        assert isinstance(spans, dict)
        sample |= {"nest.x": nest["x"], "nest.y.z": nest["y"]["z"]}
        sample |= {"spans.at": spans["at"], "spans.kind": spans["kind"], "when": columns["when"][row]}
        rows.append(sample)
    expected: dict[str, tuple[object, ...]] = {
        "label": ("int64", (), "", ("cat", "dog")),
        "labels": ("int64", (None,), "", ("p", "q")),
        "img": ("bytes", (), "image", ()),
        "img.path": ("utf8", (), "", ()),
        "snd": ("bytes", (), "audio", ()),
        "snd.path": ("utf8", (), "", ()),
        "few": ("int32", (None,), "", ()),
        "pair": ("float32", (2,), "", ()),
        "flat": ("int16", (2, 3), "", ()),
        "deep": ("float32", (1, 2, 1, 2), "", ()),
        "grows": ("int8", (None, 2), "", ()),
        "nest.x": ("int64", (), "", ()),
        "nest.y.z": ("utf8", (), "", ()),
        "spans.at": ("int8", (None,), "", ()),
        "spans.kind": ("int64", (None,), "", ("n", "v")),
        "when": ("int64", (), "timestamp[us, tz=Europe/Paris]", ()),
    }
    return made(hf, columns, features), rows, expected


@pytest.mark.parametrize("form", ["saved", "parquet", "cached"])
def test_features_of_the_library_keep_their_meaning(tmp_path: Path, hf: ModuleType, form: str) -> None:
    """In a saved dataset, a parquet snapshot, and a bare Arrow file such as its cache holds."""
    data, rows, expected = many_kinds(hf)
    if form == "parquet":
        data.to_parquet(tmp_path / "data" / "train.parquet")
    else:
        data.save_to_disk(tmp_path / "data")
    if form == "cached":
        for name in ("state.json", "dataset_info.json"):
            (tmp_path / "data" / name).unlink()
    source = open_source(str(tmp_path / "data"), None, PLAIN)
    assert source.kind == {"saved": "huggingface", "parquet": "parquet", "cached": "arrow"}[form]
    assert facets(source) == expected
    assert read(source) == (rows, [])


def test_a_saved_dataset_converts(tmp_path: Path, hf: ModuleType) -> None:
    """Labels keep their classes, images their bytes."""
    data, rows, _ = many_kinds(hf)
    data.save_to_disk(tmp_path / "data", num_shards=2)
    convert(tmp_path / "data", tmp_path / "out")
    dataset = Dataset(tmp_path / "out")
    assert dataset.schema["label"] == Feature("label", "int64", "int64", classes=("cat", "dog"))
    assert [dataset[row]["img"] for row in range(3)] == [row["img"] for row in rows]
    assert [dataset[row]["snd"] for row in range(3)] == [b"RIFF", None, b"fLaC"]
    assert dataset[2]["flat"].tolist() == rows[2]["flat"]


def test_arrays_of_another_shape_are_bad_items(tmp_path: Path, hf: ModuleType) -> None:
    """The library does not check them."""
    data = made(hf, {"a": [[[1, 2]], [[1, 2, 3]], [[5, 6]]]}, {"a": hf.Array2D((1, 2), "int8")})
    data.save_to_disk(tmp_path)
    rows, bad = read(SavedDataset(str(tmp_path), PLAIN))
    assert rows == [{"a": [[1, 2]]}, {"a": [[5, 6]]}]
    assert bad[0].where.endswith(".arrow:1")
    assert "'a' has not the shape (1, 2)" in bad[0].reason


def test_structs_in_lists_are_refused_unless_left_out(tmp_path: Path, hf: ModuleType) -> None:
    """The error names the column and the way out."""
    data = made(
        hf, {"x": [1], "boxes": [[{"a": 1}]]}, {"x": hf.Value("int8"), "boxes": hf.List({"a": hf.Value("int8")})}
    )
    data.save_to_disk(tmp_path)
    with pytest.raises(SourceError, match=r"feature 'boxes': .*leave it out \(--columns names those to keep"):
        SavedDataset(str(tmp_path), PLAIN).schema()
    assert read(SavedDataset(str(tmp_path), SourceOptions(columns=("x",)))) == ([{"x": 1}], [])


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "null", '{"info": []}', '{"info": {"features": 3}}', "[" * 100_000, b"\xff",
     '{"info": {"features": {"x": {"_type": "ClassLabel", "names": 3}}}}',
     '{"info": {"features": {"x": {"_type": "ClassLabel", "names": ["a", 1]}}}}',
     '{"info": {"features": {"x": {"_type": "Array2D", "shape": [0, -1], "dtype": "int8"}}}}',
     '{"info": {"features": {"x": {"_type": "Array2D", "shape": "ab"}}}}'],
)  # fmt: skip
def test_metadata_that_are_not_the_library_s_say_nothing(text: str | bytes) -> None:
    """Somebody else's bytes under its key change no column."""
    schema = pa.schema({"x": pa.int64()}, {"huggingface": text})
    spec = below(features_of(schema), "x")
    assert classes_of(spec, pa.int64()) == ()
    assert array_kind(spec, pa.list_(pa.list_(pa.int8()))) is None


def test_descriptions_of_older_releases_are_understood() -> None:
    """Sequences of structs, lists in brackets, and columns named as the library's own fields."""
    label = {"_type": "ClassLabel", "names": ["a", "b"], "num_classes": None}
    specs = {
        "s": {"_type": "Sequence", "feature": {"kind": label}, "length": -1},
        "l": [label],
        "_type": {"_type": "Image"},
    }
    assert classes_of(below(below(specs, "s"), "kind"), pa.list_(pa.int64())) == ("a", "b")
    assert classes_of(below(specs, "l"), pa.list_(pa.int8())) == ("a", "b")
    assert media_of(below(specs, "_type")) == "image"
    assert classes_of(label, pa.string()) == ()


def test_files_of_other_kinds_are_bytes_under_their_name(tmp_path: Path, hf: ModuleType) -> None:
    """The library stores them as it stores images."""
    features = {"film": hf.Video(decode=False), "doc": hf.Pdf(decode=False), "scan": hf.Nifti(decode=False)}
    made(hf, {name: [{"bytes": b"x", "path": "a"}] for name in features}, features).save_to_disk(tmp_path)
    source = SavedDataset(str(tmp_path), SourceOptions(columns=("film", "doc", "scan")))
    assert {name: facet[2] for name, facet in facets(source).items()} == {
        "film": "video", "doc": "application/pdf", "scan": "",
    }  # fmt: skip
    assert read(source)[0] == [{"film": b"x", "doc": b"x", "scan": b"x"}]


def test_arrays_are_told_without_the_library(tmp_path: Path) -> None:
    """A worker does not import it: then the column has the lists' own type, and its name as metadata."""
    described = {"_type": "Array2D", "shape": [2, 2], "dtype": "int8"}
    kept = {"ARROW:extension:name": "unknown.to.all", "ARROW:extension:metadata": ""}
    field = pa.field("a", pa.list_(pa.list_(pa.int8())), metadata=kept)
    schema = pa.schema([field], {"huggingface": json.dumps({"info": {"features": {"a": described}}})})
    with pa.ipc.new_stream(tmp_path / "a.arrow", schema) as out:
        out.write_table(pa.table([pa.array([[[1, 2], [3, 4]], None], field.type)], schema=schema))
    source = open_source(str(tmp_path), None, PLAIN)
    assert facets(source) == {"a": ("int8", (2, 2), "", ())}
    assert read(source)[0] == [{"a": [[1, 2], [3, 4]]}, {"a": None}]


@pytest.mark.parametrize("other", [["dog", "cat"], ["cat", "dog", "cow"]])
def test_files_whose_labels_stand_for_other_classes_are_refused(
    tmp_path: Path, hf: ModuleType, other: list[str]
) -> None:
    """Their integers would mean something else."""
    for number, names in enumerate((["cat", "dog"], other)):
        label = made(hf, {"y": [0, 1]}, {"y": hf.ClassLabel(names=names)})
        label.to_parquet(tmp_path / f"{number}.parquet")
    with pytest.raises(
        SourceError, match=rf"'y' stands for the classes {other[0]}, .*1\.parquet and cat, dog in .*0\.par"
    ):
        open_source(str(tmp_path), None, PLAIN).schema()

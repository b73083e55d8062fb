"""Test what becomes of the members of tars."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from tars import JPEG, PLAIN, PNG, array, put, read

from datafeed.converters import webdataset as source
from datafeed.converters.options import SourceOptions
from datafeed.converters.tar_fields import Field
from datafeed.converters.webdataset import WebDataset
from datafeed.errors import ConfigError, SourceError
from datafeed.schema import Feature, stored


def column(tmp_path: Path, ending: str, *values: bytes) -> tuple[Feature, list[object], list[str]]:
    """Write one member a sample, and read back the feature, its values, and why some are bad."""
    path = put(tmp_path / "t.tar", *((f"{i:03}.{ending}", value) for i, value in enumerate(values)))
    rows, bad = read(path)
    return WebDataset(str(path), PLAIN).schema()[ending], [row[ending] for row in rows], [reason for _, reason in bad]


def test_f91_keys_with_dots_are_refused_by_their_many_endings(tmp_path: Path) -> None:
    """A feature for each of them would be none of any use."""
    put(tmp_path / "t.tar", *((f"{i} Track 2.{i} (Clean Version).mp3", b"x") for i in range(120)))
    with pytest.raises(SourceError, match=r"120 endings .* such as 0 \(clean version\)\.mp3, .*keys have no dots"):
        WebDataset(str(tmp_path), PLAIN).schema()


@pytest.mark.parametrize(
    ("ending", "values", "dtype", "media", "found"),
    [
        ("cls", [b"0", b"-7\n", b" 9223372036854775807 "], "int64", "", [0, -7, 2**63 - 1]),
        ("index", [b"1", b"007"], "utf8", "", ["1", "007"]),
        ("id", [b"9223372036854775808"], "utf8", "", ["9223372036854775808"]),
        ("id", [b"1", b"\xff"], "bytes", "", [b"1", b"\xff"]),
        ("cls", [b"1_0"], "utf8", "", ["1_0"]),
        ("txt", ["é".encode(), b""], "utf8", "", ["é", ""]),
        ("caption.txt", [b"\xff"], "bytes", "", [b"\xff"]),
        ("json", [b'{"a": [1]}', b" null"], "utf8", "json", ['{"a": [1]}', " null"]),
        ("json", [b"{", b"1"], "utf8", "", ["{", "1"]),
        ("jsn", [b"[" * 100_000], "utf8", "", ["[" * 100_000]),
        ("jpg", [JPEG, PNG], "bytes", "image", [JPEG, PNG]),
        ("png", [PNG, b"no image"], "bytes", "", [PNG, b"no image"]),
        ("img", [JPEG], "bytes", "image/jpeg", [JPEG]),
        ("tar", [b"a tar"], "bytes", "", [b"a tar"]),
        ("pyd", [pickle.dumps(1)], "bytes", "", [pickle.dumps(1)]),
        ("npz", [b"PK"], "bytes", "", [b"PK"]),
        ("npy", [array(1), array(-0.5)], "float64", "", [1.0, -0.5]),
        ("npy", [array([[1, 2]], "int16")], "int16", "", [[[1, 2]]]),
        ("x.npy", [array([1, 2], ">u4"), array([3], ">u4")], "uint32", "", [[1, 2], [3]]),
        ("npy", [array([], "f2")], "float16", "", [[]]),
        ("npy", [array([[1, 2], [3, 4]], order="F")], "float64", "", [[[1.0, 2.0], [3.0, 4.0]]]),
        ("npy", [b"no array"], "bytes", "", [b"no array"]),
    ],
    ids=str,
)
def test_an_ending_tells_what_members_become(
    tmp_path: Path, ending: str, values: list[bytes], dtype: str, media: str, found: list[object]
) -> None:
    """Where the first members confirm it; otherwise they are kept as text or bytes."""
    feature, back, bad = column(tmp_path, ending, *values)
    assert (feature.dtype, feature.media, feature.optional) == (dtype, media, False)
    assert repr(back) == repr(found)
    assert not bad


@pytest.mark.parametrize(
    ("ending", "good", "odd", "reason"),
    [
        ("cls", b"1", b"x", "member .cls: expected an integer of 64 bits, found b'x'"),
        ("txt", b"a", b"\xff", "member .txt: 'utf-8' codec can't decode byte 0xff"),
        ("json", b"{}", b"{", "member .json: expected JSON: Expecting property name"),
        ("npy", array([1]), array([1], "i8"), "member .npy: expected float64 (1,), found int64 (1,)"),
        ("npy", array([1]), array([1, 2]), "member .npy: expected float64 (1,), found float64 (2,)"),
        ("npy", array([1]), array([1])[:-1], "member .npy: it is cut short: float64 of shape (1,)"),
        ("npy", array([1]), array([[1]], "O"), "member .npy: expected float64 (1,), found object (1, 1)"),
    ],
)
def test_members_of_another_form_than_the_first_are_bad_items(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, good: bytes, odd: bytes, reason: str
) -> None:
    """The sample is named, and those around it are kept."""
    monkeypatch.setattr(source, "SAMPLES", 1)
    _, values, bad = column(tmp_path, ending, good, odd, good)
    assert len(values) == 2
    assert [found[: len(reason)] for found in bad] == [reason]


@pytest.mark.parametrize(("dtype", "why"), [("O", "could run any code"), ("c8", "no feature holds"), ("U3", "no feat")])
def test_f57_arrays_that_no_feature_holds_are_refused(tmp_path: Path, dtype: str, why: str) -> None:
    """Pickled ones too, and nothing unpickles them; by name, and they can be left out."""
    put(tmp_path / "t.tar", ("0.e.npy", array([1], dtype)), ("0.cls", b"1"))
    with pytest.raises(SourceError, match=rf"member \.e\.npy: an array of dtype .* which .*{why}.*--columns"):
        WebDataset(str(tmp_path), PLAIN).schema()
    assert read(tmp_path, SourceOptions(columns=("cls", "key"))) == ([{"key": "0", "cls": 1}], [])


def test_members_that_some_first_samples_lack_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that all have may not, later; nor may others come."""
    monkeypatch.setattr(source, "SAMPLES", 2)
    full = [("a.cls", b"1"), ("a.npy", array([1.0])), ("a.txt", b"x"), ("a.jpg", JPEG)]
    later = [("c.cls", b"2"), ("d.jpg", JPEG), ("d.mp3", b""), ("e.jpg", JPEG)]
    put(tmp_path / "t.tar", *full, ("b.jpg", JPEG), *later)
    rows, bad = read(tmp_path)
    none = {"cls": None, "npy": None, "txt": None, "jpg": JPEG}
    assert rows == [
        {"key": "a", "cls": 1, "npy": [1.0], "txt": "x", "jpg": JPEG},
        {"key": "b", **none},
        {"key": "e", **none},
    ]
    assert [(where[-1], reason) for where, reason in bad] == [
        ("c", "missing member .jpg, which the first samples have"),
        ("d", "it has a member .mp3, which the first samples lack"),
    ]


def test_most_arrays_tell_dtype_and_shape(tmp_path: Path) -> None:
    """Of the first ones; those that are always empty are ragged."""
    feature, values, bad = column(tmp_path, "npy", array([[1]]), array([1], "i4"), array([], "i4"), array([1], "i4"))
    assert (feature.dtype, feature.shape, values) == ("int32", (None,), [[1], [], [1]])
    assert bad == ["member .npy: expected int32 ('any',), found float64 (1, 1)"]
    assert column(tmp_path, "npy", array([], "i4"))[0].shape == (None,)


def test_arrays_are_stored_as_their_dtype_has_them() -> None:
    """A bool is 0 or 1, whatever the file has; a float that is missing is NaN."""
    flags = Field(stored("npy", "bool", (2,)), "array")
    odd = array([0, 2], "u1").replace(b"|u1", b"|b1")
    assert flags.column([flags.value(odd)]).values.view("u1").tolist() == [[0, 1]]
    floats = Field(stored("npy", "float32", (2,), optional=True), "array")
    assert np.isnan(floats.column([None]).values.astype("f8")).tolist() == [[True, True]]


def test_no_more_is_looked_at_than_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of large samples one of each tar."""
    monkeypatch.setattr(source, "SAMPLE_NBYTES", 5000)
    for name in "ab":
        put(tmp_path / f"{name}.tar", ("0.mp4", bytes(2500)), ("1.mp4", bytes(2500)), ("1.txt", b""))
    assert "txt" not in WebDataset(str(tmp_path), PLAIN).schema()
    put(tmp_path / "a.tar", ("0.mp4", bytes(1000)), ("1.mp4", bytes(2500)), ("1.txt", b""))
    assert "txt" in WebDataset(str(tmp_path), PLAIN).schema()


def test_chosen_columns_alone_are_looked_at(tmp_path: Path) -> None:
    """What others hold or lack is no matter; one that is not there is refused."""
    put(tmp_path / "t.tar", ("0.cls", b"1"), ("0.key", b"k"), ("1.cls", b"2"), ("1.odd", b""))
    assert read(tmp_path, SourceOptions(columns=("cls",))) == ([{"cls": 1}, {"cls": 2}], [])
    with pytest.raises(ConfigError, match="no feature 'x'; there are key, cls, key, odd"):
        WebDataset(str(tmp_path), SourceOptions(columns=("x",))).schema()
    with pytest.raises(SourceError, match=r"members end in \.key, and the sample's own key has that name"):
        WebDataset(str(tmp_path), PLAIN).schema()


def test_samples_from_many_tars_draw_the_schema(tmp_path: Path) -> None:
    """What only a later tar has is known."""
    for number in range(40):
        put(tmp_path / f"{number:02}.tar", ("0.cls", b"1"), *([("0.jpg", JPEG)] if number == 38 else []))
    assert WebDataset(str(tmp_path), PLAIN).schema()["jpg"].optional
    (tmp_path / "notes.txt").touch()
    (tmp_path / "empty.tgz").touch()
    assert WebDataset(str(tmp_path), PLAIN).notes() == [
        "1 of the files has 0 bytes",
        "1 file passed over, by name no tar",
    ]

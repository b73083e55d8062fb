"""Test reading WebDataset tars, written by the webdataset package."""

from __future__ import annotations

import io
import json
import random
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import fsspec
import pytest
import webdataset
import zstandard
from source_contract import Row, SourceContract
from tars import JPEG, PLAIN, PNG, link, put, read
from webdataset.tariterators import group_by_keys, tar_file_expander

from datafeed.converters import webdataset as source
from datafeed.converters.detect import open_source
from datafeed.converters.tar_samples import Run
from datafeed.converters.webdataset import WebDataset
from datafeed.errors import BadItem, EmptySource


def write(path: Path, samples: Iterable[Mapping[str, object]]) -> Path:
    """Write a tar, packed as its name says, as users of webdataset do."""
    path.parent.mkdir(parents=True, exist_ok=True)
    packed = path.suffix == ".zst"
    with webdataset.TarWriter(str(path.with_suffix("") if packed else path)) as tar:
        for sample in samples:
            tar.write(dict(sample))
    if packed:
        path.write_bytes(zstandard.compress(path.with_suffix("").read_bytes()))
        path.with_suffix("").unlink()
    return path


def theirs(path: Path) -> list[dict[str, Any]]:
    """Return the samples of a tar as webdataset reads them."""
    with path.open("rb") as file:
        return list(group_by_keys(tar_file_expander([{"url": str(path), "stream": file}])))


def plain_samples(start: int, end: int) -> list[dict[str, object]]:
    """Return samples as webdataset encodes them."""
    return [
        {"__key__": f"part.1/{i:04}", "jpg": JPEG + bytes([i]), "cls": i, "json": {"i": i}, "txt": f"é{i}"}
        for i in range(start, end)
    ]


def expected(start: int, end: int) -> list[Row]:
    """Return them as they are read."""
    return [
        {"key": f"part.1/{i:04}", "cls": i, "jpg": JPEG + bytes([i]), "json": json.dumps({"i": i}), "txt": f"é{i}"}
        for i in range(start, end)
    ]


class TestWebDataset(SourceContract):
    """Hold a folder of tars, plain and packed, to what every source promises."""

    def open(self, path: Path) -> WebDataset:
        """Open it."""
        return WebDataset(str(path), PLAIN)

    def write(self, folder: Path) -> list[Row]:
        """Write three tars with samples, one without any, one of 0 bytes."""
        (folder / "a.tar").touch()
        write(folder / "b.tar", plain_samples(0, 4))
        write(folder / "c.tar", [])
        write(folder / "d.tar.gz", plain_samples(4, 6))
        write(folder / "e.tar.zst", plain_samples(6, 9))
        return expected(0, 9)

    def spoil(self, folder: Path) -> tuple[str, str, list[Row]]:
        """Write the first sample again, behind the others."""
        write(folder / "b.tar", [*plain_samples(0, 4), *plain_samples(0, 1)])
        return "b.tar: part.1/0000", "its key came before in this tar", expected(0, 9)


@pytest.mark.parametrize("nbytes", [1, 50_000, 10**9])
def test_units_are_runs_of_whole_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nbytes: int) -> None:
    """Whatever their size, what comes is what webdataset itself reads, but for the key that came before."""
    monkeypatch.setattr(source, "UNIT_NBYTES", nbytes)
    monkeypatch.setattr(source, "CHUNK_NBYTES", 2000)
    path = write(tmp_path / "t.tar", [*plain_samples(0, 40), *plain_samples(3, 4), *plain_samples(40, 50)])
    units = WebDataset(str(path), PLAIN).units()
    assert len(units) == {1: 51, 50_000: 8, 10**9: 1}[nbytes]
    assert sum(unit.nbytes for unit in units) == path.stat().st_size
    assert sum(len(cast("Run", unit.detail).again or ()) for unit in units) == 1
    rows, bad = read(path)
    assert bad == [(f"{path}: part.1/0003", "its key came before in this tar")]
    wanted = [
        {"key": sample["__key__"], "jpg": sample["jpg"], "cls": int(sample["cls"]), "txt": sample["txt"].decode()}
        for sample in theirs(path)
    ]
    assert [{name: row[name] for name in wanted[0]} for row in rows] == [*wanted[:40], *wanted[41:]]


def test_the_order_of_features_is_that_of_the_first_samples(tmp_path: Path) -> None:
    """The key first; endings are in lower case, and may have dots."""
    put(tmp_path / "t.tar", ("a.seg.PNG", PNG), ("a.JPG", JPEG), ("b.jpg", JPEG), ("b.seg.png", PNG))
    schema = WebDataset(str(tmp_path), PLAIN).schema()
    assert [(feature.name, feature.dtype, feature.media) for feature in schema] == [
        ("key", "utf8", ""),
        ("seg.png", "bytes", "image/png"),
        ("jpg", "bytes", "image/jpeg"),
    ]


def test_f91_keys_are_what_webdataset_makes_of_names(tmp_path: Path) -> None:
    """Folders belong to the key and may have dots; the first dot of the last part ends it; folders are no members."""
    folder = tarfile.TarInfo("train.v1")
    folder.type = tarfile.DIRTYPE
    names = ["train.v1/0001.jpg", "a/22.0/1.jpg", "./x/y.jpg", "Ü b\n.jpg", f"{'long/' * 60}n.jpg"]
    put(tmp_path / "t.tar", folder, *((name, JPEG) for name in names))
    rows, bad = read(tmp_path)
    wanted = [sample["__key__"] for sample in theirs(tmp_path / "t.tar")]
    assert [row["key"] for row in rows] == wanted == [name.removesuffix(".jpg") for name in names]
    assert not bad


def test_f56_names_that_are_no_utf8_are_escaped(tmp_path: Path) -> None:
    """In the key, in an ending and in messages."""
    with tarfile.open(tmp_path / "t.tar", "w", format=tarfile.GNU_FORMAT, encoding="latin-1") as tar:
        tar.addfile(tarfile.TarInfo("é.ß"))
        tar.addfile(tarfile.TarInfo("noß"))
    rows, bad = read(tmp_path)
    assert rows == [{"key": "\\xe9", "\\xdf": b""}]
    assert bad[0][0].endswith("t.tar: member no\\xdf")


@pytest.mark.parametrize("name", ["README", ".hidden.jpg", "a/._0001.jpg", "0001.", "a/"])
def test_f91_a_member_without_a_key_or_ending_is_a_bad_item(tmp_path: Path, name: str) -> None:
    """The webdataset package passes over it, or makes a key of the folder alone; the samples around it are kept."""
    put(tmp_path / "t.tar", ("0.jpg", JPEG), (name, b"x"), ("1.jpg", JPEG))
    rows, bad = read(tmp_path)
    assert [row["key"] for row in rows] == ["0", "1"]
    assert [(where.rpartition(": ")[2], reason[:24]) for where, reason in bad] == [
        (f"member {name}", "expected a name such as ")
    ]


def test_f55_a_link_without_an_ending_is_a_bad_item_of_its_own(tmp_path: Path) -> None:
    """It is named, and said to be a link; so is a folder whose name leads out of the tar."""
    up = tarfile.TarInfo("../out")
    up.type = tarfile.DIRTYPE
    path = put(tmp_path / "t.tar", ("0.jpg", JPEG), link("latest"), up, ("1.jpg", JPEG))
    rows, bad = read(tmp_path)
    assert [row["key"] for row in rows] == ["0", "1"]
    assert [(where, reason[:25]) for where, reason in bad] == [
        (f"{path}: member latest", "expected a file, found a "),
        (f"{path}: member ../out/", "its name leads out of the"),
    ]


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        ([("1.cls", b"1"), ("1.cls", b"2")], "member 1.cls stands there twice"),
        (
            [("1.cls", b"1"), link("1.jpg")],
            "member 1.jpg: expected a file, found a symbolic link, which is not followed",
        ),
        ([("1.cls", b"1"), *((f"1.{i}", b"") for i in range(1001))], "more than 1,000 members"),
        ([("../1.cls", b"1")], "member ../1.cls: its name leads out of the tar"),
    ],
    ids=["twice", "link", "many", "up"],
)
def test_f54_f55_odd_members_make_a_bad_item_of_their_sample(
    tmp_path: Path, odd: list[tuple[str, bytes] | tarfile.TarInfo], reason: str
) -> None:
    """One for the sample, however many of its members are odd; the schema is drawn from the others."""
    put(tmp_path / "t.tar", ("0.cls", b"1"), *odd, ("2.cls", b"3"))
    rows, bad = read(tmp_path)
    assert [row["cls"] for row in rows] == [1, 3]
    assert [found[: len(reason)] for _, found in bad] == [reason]


def test_a_bad_sample_is_kept_as_it_stands_for_quarantine(tmp_path: Path) -> None:
    """Its members are a tar again."""
    path = put(tmp_path / "t.tar", ("0.cls", b"1"), ("1.cls", b"1"), ("1.jpg", JPEG), ("0.cls", b"2"), ("0.jpg", JPEG))
    opened, bad = WebDataset(str(path), PLAIN), list[BadItem]()
    assert sum(chunk.rows for unit in opened.units() for chunk in opened.read(unit, bad.append)) == 2
    with tarfile.open(fileobj=io.BytesIO(bad[0].data or b"")) as tar:
        assert tar.getnames() == ["0.cls", "0.jpg"]


def test_f92_tars_without_samples_are_an_empty_source(tmp_path: Path) -> None:
    """With the first bad item where there is one."""
    put(tmp_path / "t.tar", ("README", b""))
    with pytest.raises(EmptySource, match=r"no tar holds a sample; the first bad item is .*member README"):
        WebDataset(str(tmp_path), PLAIN).schema()
    (tmp_path / "t.tar").write_bytes(b"")
    for need in (WebDataset(str(tmp_path), PLAIN).units, WebDataset(str(tmp_path), PLAIN).schema):
        with pytest.raises(EmptySource, match="no "):
            need()


def test_tars_are_told_and_read_from_urls_with_braces(tmp_path: Path) -> None:
    """As from paths; a remote tar is one unit."""
    for number in range(3):
        data = write(tmp_path / f"t-{number}.tar", plain_samples(3 * number, 3 * number + 3)).read_bytes()
        fsspec.filesystem("memory").pipe(f"/wds/t-{number}.tar", data)
    for where in (str(tmp_path), str(tmp_path / "t-{0..2}.tar"), "memory://wds", "memory://wds/t-{0..2}.tar"):
        opened = open_source(where, None, PLAIN)
        assert (opened.kind, len(opened.units())) == ("webdataset", 3)
        assert read(where) == (expected(0, 9), [])


@pytest.mark.parametrize("name", ["a.tar", "a.TAR.GZ", "a.tgz", "a.tar.zst", "a"])
def test_a_folder_of_tars_is_told(tmp_path: Path, name: str) -> None:
    """By the ends of names, or by what a tar begins with."""
    put(tmp_path / name, ("0.jpg", JPEG))
    assert open_source(str(tmp_path), None, PLAIN).kind == "webdataset"


@pytest.mark.parametrize("packed", [".gz", ".zst"])
@pytest.mark.parametrize("flaw", ["cut", "damaged"])
def test_f95_a_packed_tar_with_a_flaw_keeps_what_is_before(tmp_path: Path, packed: str, flaw: str) -> None:
    """And names the sample that it cuts; drawing the schema does not stop at it."""
    samples = [{"__key__": f"{i:04}", "jpg": random.Random(i).randbytes(3000)} for i in range(400)]
    path = write(tmp_path / f"t.tar{packed}", samples)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + (b"" if flaw == "cut" else bytes(len(data) // 2)))
    rows, bad = read(path)
    sure = len(rows) if flaw == "cut" else 150  # what is damaged may still unpack for a while
    assert 150 <= sure < 300
    assert [(row["key"], row["jpg"]) for row in rows[:sure]] == [(one["__key__"], one["jpg"]) for one in samples[:sure]]
    assert bad[-1][0] == f"{path}: {len(rows):04}" or "the rest of it cannot be read" in bad[-1][1]


def test_f44_a_tar_cut_in_its_last_sample_loses_that_alone(tmp_path: Path) -> None:
    """Whether in a member or behind its first one; it is one bad item."""
    path = put(tmp_path / "t.tar", *((f"{i}.{ending}", b"1" * 700) for i in range(3) for ending in ("cls", "jpg")))
    whole = path.read_bytes()
    for length, why in ((5 * 1536 + 600, "member 2.jpg: the tar ends"), (5 * 1536, "missing member .jpg")):
        path.write_bytes(whole[:length])
        rows, bad = read(path)
        assert [row["key"] for row in rows] == ["0", "1"]
        assert bad[0][0] == f"{path}: 2"
        assert bad[0][1].startswith(why)


def test_f07_damaged_bytes_never_make_other_samples(tmp_path: Path) -> None:
    """Whatever bytes of headers are others, what comes was written, and what does not is told."""
    written = expected(0, 12)
    path = write(tmp_path / "t.tar", plain_samples(0, 12))
    whole = path.read_bytes()
    draw = random.Random(0)
    headers = [place for place in range(0, len(whole), 512) if whole[place + 257 : place + 262] == b"ustar"]
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(draw.randrange(1, 3)):
            data[draw.choice(headers) + draw.randrange(512)] = draw.randrange(256)
        path.write_bytes(data)
        try:
            rows, bad = read(path)
        except EmptySource:
            continue
        for row in rows:
            original = next(one for one in written if one["key"] == row["key"])
            assert {name: original[name] for name, value in row.items() if value is not None}.items() <= row.items()
        assert bad or rows == written

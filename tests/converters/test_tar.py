"""Test walking and reading the members of tars, written by Python's tarfile."""

from __future__ import annotations

import io
import tarfile
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tars import sealed

from datafeed.converters.tar import read_members, walk
from datafeed.converters.tar_header import DamagedError, Member, parse

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
END = bytes(1024)
CHARACTERS = st.characters(codec="utf-8", exclude_characters="\0/\\:")
NAMES = st.text(CHARACTERS, min_size=1, max_size=150).filter(lambda name: name != "..")


def member(name: str, data: bytes = b"", form: str = "pax", **fields: object) -> bytes:
    """Return a member as tarfile writes it; it may declare another size, type or link than its data say."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info.tobuf(FORMATS[form]) + data + bytes(-len(data) % 512)


def read(data: bytes) -> tuple[list[tuple[bytes, bytes, str]], str]:
    """Return name, data and flaw of each member, and why it cannot be read on; both ways to walk must agree."""
    found: list[tuple[Member, bytes]] = []
    reason = ""
    try:
        found.extend(read_members(io.BufferedReader(io.BytesIO(data)), 0, None))  # which allocates what is asked for
    except DamagedError as exc:
        reason = f"byte {exc.at}: {exc.reason}"
    places = [one.at for one, _ in found]
    assert [one.at for one in walk(io.BytesIO(data), len(data))] == places
    return [(one.name, data, one.flaw) for one, data in found], reason


@pytest.mark.parametrize("form", FORMATS)
@given(
    names=st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\0/\\:"), min_size=1, max_size=150).filter(
            lambda name: name != ".."
        )
    )
)
def test_names_and_data_are_those_that_were_written(form: str, names: list[str]) -> None:
    """In every format, names of up to some hundred bytes in folders too."""
    file = io.BytesIO()
    written: list[tuple[bytes, bytes, str]] = []
    with tarfile.open(fileobj=file, mode="w", format=FORMATS[form]) as tar:
        for number, name in enumerate(names):
            info = tarfile.TarInfo(f"f{number}/{name}")
            data = bytes([number % 256]) * (number * 300)
            info.size, info.mtime = len(data), number / 7
            try:
                tar.addfile(info, io.BytesIO(data))
            except ValueError:  # ustar has no room for it
                continue
            written.append((info.name.encode(), data, ""))
    assert read(file.getvalue()) == (written, "")


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}, "a symbolic link, which is not followed"),
        ({"type": tarfile.LNKTYPE, "linkname": "../x"}, "a hard link, which is not followed"),
        ({"type": tarfile.CHRTYPE, "size": 9999}, "a character device"),
        ({"type": tarfile.BLKTYPE}, "a block device"),
        ({"type": tarfile.FIFOTYPE}, "a FIFO"),
        ({"type": b"Z"}, "a member of type b'Z'"),
        ({"type": tarfile.SYMTYPE, "linkname": "x" * 300}, "a symbolic link"),
    ],
    ids=lambda value: str(value)[:40],
)
@pytest.mark.parametrize("form", ["gnu", "pax"])
def test_f55_what_is_no_file_has_a_flaw(form: str, fields: dict[str, object], what: str) -> None:
    """It is never followed; the members around it are read."""
    data = member("a.x", b"1", form) + member("b.x", b"", form, **fields) + member("c.x", b"3", form) + END
    found, reason = read(data)
    assert found[0::2] == [(b"a.x", b"1", ""), (b"c.x", b"3", "")]
    assert found[1][2].startswith(f"expected a file, found {what}")
    assert not reason


@pytest.mark.parametrize(
    "name", ["/a.x", "../a.x", "b/../a.x", "b/..", "C:\\a.x", "c:/a.x", "\\\\host\\a.x", "b\\..\\a.x"]
)
@pytest.mark.parametrize("form", FORMATS)
def test_f55_names_that_lead_out_of_the_tar_have_a_flaw(form: str, name: str) -> None:
    """Absolute ones, of Windows too, and those with `..`."""
    found, reason = read(member(name, b"1", form) + END)
    assert [(found[0][0], found[0][2][:30])] == [(name.encode(), "its name leads out of the tar:")]
    assert not reason


@pytest.mark.parametrize("name", ["a..b/c.x", "a:b.x", "...x", "b/...", "~/a.x", "a b.x"])
def test_f91_names_that_look_alike_have_none(name: str) -> None:
    """Dots and colons may stand in a name."""
    assert read(member(name, b"1") + END) == ([(name.encode(), b"1", "")], "")


def test_f55_a_name_with_nul_has_a_flaw() -> None:
    """A pax header alone can hold one."""
    long = "n" * 120 + "#.x"
    found, _ = read(member(long, b"1").replace(b"#", b"\0") + END)
    assert found[0][2].startswith("its name leads out of the tar: expected a relative one without '..' and NUL")


def test_f54_sparse_members_have_a_flaw() -> None:
    """Of GNU tar, whose map may go on behind the header, and of pax."""
    block = bytearray(member("s.x", b"12")[:512])
    block[156:157], block[482] = b"S", 1
    middle = bytes(504) + b"\1" + bytes(7)
    old = sealed(block) + middle + bytes(512) + member("s.x", b"12")[512:]
    new = member("t.x", b"12", pax_headers={"GNU.sparse.major": "1"})
    found, reason = read(old + new + member("c.x", b"3") + END)
    assert [(name, data) for name, data, flaw in found if not flaw] == [(b"c.x", b"3")]
    assert [flaw[:9] for _, _, flaw in found] == ["it is spa", "it is spa", ""]
    assert not reason


@pytest.mark.parametrize("form", ["gnu", "pax"])
@pytest.mark.parametrize("nbytes", [2**31 - 1, 2**31, 2**40, 2**62])
def test_f54_a_declared_size_allocates_nothing(form: str, nbytes: int) -> None:
    """However large it is, in base 256 or pax: the member is the last, and said to be cut or too large."""
    data = member("a.x", b"1", form) + member("b.x", b"", form, size=nbytes) + bytes(10_000)
    tracemalloc.start()
    found, _ = read(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found[0] == (b"a.x", b"1", "")
    large = f"expected at most 2,147,483,647 bytes, found {nbytes:,}"
    cut = f"the tar ends or cannot be read within it: expected {nbytes:,} bytes, found 10,000"
    assert found[1][2] == (large if nbytes >= 2**31 else cut)
    assert peak < 5 * 10**6


def test_f54_an_extended_header_is_bounded() -> None:
    """One of a name as large as memory is refused before it is read."""
    block = bytearray(member("././@LongLink", type=b"L", size=2**30, form="gnu"))
    assert read(bytes(block) + bytes(5000)) == (
        [],
        "byte 0: an extended header of 1,073,741,824 bytes, expected at most 1,048,576",
    )


def test_f44_a_tar_cut_at_any_length_says_so() -> None:
    """What is before is kept; nothing that was not written comes."""
    whole = [(name.encode(), name.encode() * 300, "") for name in ("a.x", "é" * 60 + ".x", "b.x")]
    data = b"".join(member(name.decode(), data) for name, data, _ in whole) + END
    for length in range(0, len(data) - len(END) + 1, 7):
        found, reason = read(data[:length])
        sound = [one for one in found if not one[2]]
        assert sound == whole[: len(sound)]
        assert reason or found[-1][2].startswith("the tar ends or cannot be read within it: expected")
    assert read(data[: -len(END) + 512]) == (whole, "")


def test_every_byte_of_a_header_counts() -> None:
    """A flipped bit is found by the checksum, or makes it no number."""
    data = member("a.x", b"1", "ustar") + END
    for place in range(512):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[place] ^= 1 << bit
            found, reason = read(bytes(damaged))
            assert reason.startswith("byte 0: expected the header of a member") or found == [(b"a.x", b"1", "")]
            assert 148 <= place < 156 or not found  # a blank of the checksum may be another


@pytest.mark.parametrize("name", ["plain.x", "\xe9.x", "\xff" * 40 + ".x"])
def test_checksums_of_signed_bytes_are_sound(name: str) -> None:
    """As old writers added them."""
    block = bytearray(tarfile.TarInfo(name).tobuf(tarfile.GNU_FORMAT, "latin-1"))
    signed = sum(byte - 256 * (byte > 127) for byte in block[:148] + block[156:]) + 256
    block[148:156] = b"%06o\0 " % signed
    assert parse(bytes(block), 0).name == name.encode("latin-1")


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        (b"x", "byte 1536: there are bytes behind the end of the tar, which are not read"),
        (bytes(3 * 2**20) + member("b.x"), "byte 3147264: there are bytes behind the end"),
        (bytes(9000), ""),
    ],
)
def test_bytes_behind_the_end_are_told(rest: bytes, reason: str) -> None:
    """Zeros fill a tar up; anything else would be lost in silence."""
    found, why = read(member("a.x", b"", "ustar") + END + rest)
    assert found == [(b"a.x", b"", "")]
    assert why.startswith(reason)
    assert bool(why) == bool(reason)


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        (b"12 path=b.x", "whose records cannot be told apart"),
        (b"99 path=b.x\n", "whose records cannot be told apart"),
        (b"0 path=b.x\n", "whose records cannot be told apart"),
        (b"x path=b.x\n", "whose records cannot be told apart"),
        (b"11 size=-1\n", "with b'-1' as a size"),
        (b"13 size=0x10\n", "with b'0x10' as a size"),
    ],
)
def test_damaged_pax_headers_end_the_reading(records: bytes, reason: str) -> None:
    """The size of the member behind one is not sure."""
    extended = member("h", records, "ustar", type=b"x")
    found, why = read(member("a.x", b"1") + extended + member("b.x") + END)
    assert found == [(b"a.x", b"1", "")]
    assert reason in why


def test_global_headers_are_passed_over_where_they_name_no_member() -> None:
    """As `git archive` writes its commit; one that gives all members a size cannot be right."""
    assert read(member("g", b"14 comment=12\n", type=b"g") + member("a.x") + END) == ([(b"a.x", b"", "")], "")
    _, reason = read(member("g", b"9 size=1\n", type=b"g") + member("a.x") + END)
    assert "a global pax header gives all members one size" in reason
    assert "without a member behind it" in read(member("h", b"12 path=a.x\n", type=b"x") + END)[1]


def test_the_first_of_several_names_counts() -> None:
    """As tarfile has it."""
    pax, gnu = member("h", b"12 path=a.x\n", type=b"x"), member("././@LongLink", b"b.x\0", "gnu", type=b"L")
    for data, name in ((pax + gnu, "a.x"), (gnu + pax, "b.x"), (gnu, "b.x")):
        whole = data + member("c.x", b"3") + END
        assert read(whole) == ([(name.encode(), b"3", "")], "")
        with tarfile.open(fileobj=io.BytesIO(whole)) as tar:
            assert tar.getnames() == [name]


def test_folders_are_told_as_they_were_before_there_were_types() -> None:
    """By the slash at the end of their names."""
    data = member("d/", form="ustar", type=tarfile.AREGTYPE, size=512) + END
    assert [one.is_folder for one, _ in read_members(io.BytesIO(data), 0, None)] == [True]


def test_what_reading_raises_is_damage() -> None:
    """Where a disk or a packed stream fails, that is the end of the tar."""

    class Failing(io.BytesIO):
        def read(self, nbytes: int | None = -1, /) -> bytes:
            if self.tell() >= 1024:
                raise OSError("no more")
            return super().read(nbytes)

    with pytest.raises(DamagedError, match="no more"):
        list(read_members(Failing(member("a.x", b"1") + END), 0, None))

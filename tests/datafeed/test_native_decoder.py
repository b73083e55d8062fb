"""Check the decoder of runs against decoding frame by frame, on whole and on hostile bytes."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import oracle
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st

from datafeed._native import Block, Decoder, _zstd_version
from datafeed.errors import CorruptData, SchemaError
from datafeed.frames import MAGIC, check_header, checksum, compress, decompress, decompress_into

needs_libzstd = pytest.mark.skipif(not _zstd_version(), reason="no libzstd on this system")
Records = Sequence[bytes]


@dataclass
class Run:
    """Hold consecutive frames, and the columns of the index that describe them."""

    frames: list[bytes]
    raw: npt.NDArray[np.uint32]
    records: npt.NDArray[np.uint32]

    @classmethod
    def of(cls, blocks: Sequence[Records], level: int = 1) -> Run:
        """Make a run of blocks of records."""
        raws = [b"".join(map(oracle.frame, records)) for records in blocks]
        return cls(
            [compress(raw, level) for raw in raws],
            np.array([len(raw) for raw in raws], np.uint32),
            np.array([len(records) for records in blocks], np.uint32),
        )

    @property
    def data(self) -> bytes:
        """The frames, end to end."""
        return b"".join(self.frames)

    def decoder(self) -> Decoder:
        """Return the decoder of the run."""
        return reading(self, 0)


def records_of(blocks: list[Block]) -> list[list[bytes]]:
    """Return the records of blocks."""
    return [[bytes(block.record(row)) for row in range(len(block))] for block in blocks]


SMALL_RECORDS = [[b"one", b"two" * 30], [b"", b"x" * 300]]
SMALL = Run.of(SMALL_RECORDS)


@needs_libzstd
@given(st.lists(st.lists(st.binary(max_size=400), min_size=1, max_size=40), min_size=1, max_size=8), st.integers(-1, 3))
def test_decode_when_frames_are_whole(blocks: list[list[bytes]], level: int) -> None:
    """Every record of every block comes back, whatever part of the run is asked for."""
    run = Run.of(blocks, level)
    decoder = run.decoder()
    for start in range(len(blocks)):
        found = decoder.decode(b"".join(run.frames[start:]), start, len(blocks), bytearray)
        assert found is not None
        assert records_of(found) == blocks[start:]


@needs_libzstd
@pytest.mark.parametrize("nbytes", [1, 239, 240, 241, 65_000, 65_775, 65_776, 65_777, 200_000, 3_000_000])
@pytest.mark.parametrize("kind", ["noise", "zeros"])
def test_decode_when_the_content_size_takes_other_widths(nbytes: int, kind: str) -> None:
    """Frames of one, two and four bytes of content size, with a window too; raw, compressed and repeated blocks."""
    record = np.random.default_rng(3).bytes(nbytes) if kind == "noise" else bytes(nbytes)
    run = Run.of([[record]])
    found = run.decoder().decode(run.data, 0, 1, bytearray)
    assert found is not None
    assert records_of(found) == [[record]]


@needs_libzstd
def test_f46_decode_when_any_bit_flips() -> None:
    """A flip anywhere in a run is found, but for the bits that libzstd reads nothing from, two in each frame."""
    decoder = SMALL.decoder()
    silent = 0
    for bit in range(8 * len(SMALL.data)):
        data = bytearray(SMALL.data)
        data[bit // 8] ^= 1 << bit % 8
        found = decoder.decode(bytes(data), 0, 2, bytearray)
        silent += found is not None
        assert found is None or records_of(found) == SMALL_RECORDS, bit
    assert silent <= 4


@needs_libzstd
def test_decode_when_cut_at_every_length() -> None:
    """A run that ends early is found."""
    decoder = SMALL.decoder()
    for end in range(len(SMALL.data)):
        assert decoder.decode(SMALL.data[:end], 0, 2, bytearray) is None, end


@needs_libzstd
@given(st.data())
def test_decode_when_bytes_are_hostile(data: st.DataObject) -> None:
    """What frame by frame is refused is refused; what is not gives the same records, or is left to that way."""
    frame = bytearray(SMALL.frames[0])
    at = data.draw(st.integers(4, len(frame) - 5))
    frame[at:at] = data.draw(st.binary(max_size=6))
    for place in data.draw(st.lists(st.integers(4, len(frame) - 5), max_size=4)):
        frame[place] = data.draw(st.integers(0, 255))
    run = Run([bytes(frame)], SMALL.raw[:1], SMALL.records[:1])
    found = run.decoder().decode(run.data, 0, 1, bytearray)
    try:
        check_header(frame, int(run.raw[0]))
        into = memoryview(bytearray(int(run.raw[0])))
        decompress_into(memoryview(run.data), into)
        expected = records_of([Block(into, 2)])
    except CorruptData:
        assert found is None
    else:
        assert found is None or records_of(found) == expected


@needs_libzstd
@pytest.mark.parametrize("column", ["stored", "raw", "records", "checksum"])
@pytest.mark.parametrize("by", [-1, 1])
def test_decode_when_the_index_says_otherwise(column: str, by: int) -> None:
    """A frame of another size, checksum or count than the index names is found."""
    columns = {
        "stored": np.array([len(frame) for frame in SMALL.frames], np.uint32),
        "raw": SMALL.raw.copy(),
        "records": SMALL.records.copy(),
        "checksum": np.array([checksum(frame) for frame in SMALL.frames], np.uint32),
    }
    columns[column][1:] += np.array([by]).astype(columns[column].dtype)
    decoder = Decoder(
        SMALL.raw.astype(np.int64), columns["stored"], columns["raw"], columns["records"], columns["checksum"]
    )
    assert decoder.decode(SMALL.data, 0, 2, bytearray) is None
    assert decoder.decode(SMALL.data, 0, 1, bytearray) is not None


@needs_libzstd
def test_decode_when_sizes_are_none() -> None:
    """A size of zero is refused before memory is asked for."""
    none, one = np.array([0], np.uint32), np.array([1], np.uint32)
    for stored, raw in ((none, one), (one, none)):
        assert Decoder(np.ones(1, np.int64), stored, raw, one, none).decode(SMALL.data, 0, 1, bytearray) is None


@needs_libzstd
@pytest.mark.parametrize(
    ("descriptor", "window", "taken"),
    [
        (0x84, 17 << 3, True),
        (0xC4, 0, True),
        (0x84, 17 << 3 | 1, False),
        (0x84, 255, False),
        (0x80, 0, False),
        (0x85, 0, False),
        (0x8C, 0, False),
        (0x94, 0, False),
        (0x04, 0, False),
    ],
    ids=[
        "128 MiB of window",
        "a size of 8 bytes",
        "more window",
        "the largest window",
        "no checksum",
        "a dictionary",
        "a reserved bit",
        "an unused bit",
        "no size",
    ],
)
def test_decode_takes_what_the_format_allows(descriptor: int, window: int, *, taken: bool) -> None:
    """A frame of another form is not looked into: whoever wants to know what is wrong with it looks again."""
    raw = oracle.frame(b"one" * 10)
    size = len(raw).to_bytes(8, "little")[: (0, 2, 4, 8)[descriptor >> 6]]
    head = struct.pack("<IBB", MAGIC, descriptor, window) + size + (len(raw) << 3 | 1).to_bytes(3, "little")
    run = Run([head + raw + compress(raw, 1)[-4:]], np.array([len(raw)], np.uint32), np.array([1], np.uint32))
    assert (run.decoder().decode(run.data, 0, 1, bytearray) is not None) is taken
    assert not taken or decompress(run.data, len(raw)) == raw


@needs_libzstd
@pytest.mark.parametrize(("start", "stop"), [(-1, 1), (0, 3), (1, 1), (2, 1), (2, 3)])
def test_decode_when_there_are_no_such_blocks(start: int, stop: int) -> None:
    """Blocks outside the index are a mistake of the caller."""
    with pytest.raises(ValueError, match=f"blocks {start} to {stop} of 2"):
        SMALL.decoder().decode(SMALL.data, start, stop, bytearray)


@needs_libzstd
@pytest.mark.parametrize("take", [bytes, lambda nbytes: bytearray(nbytes - 1), lambda nbytes: bytearray(nbytes + 1)])
def test_decode_when_the_memory_is_not_as_asked(take: object) -> None:
    """Memory that is read-only or of another size is not written to."""
    with pytest.raises(ValueError, match="expected a writable buffer of "):
        SMALL.decoder().decode(SMALL.data, 0, 2, take)  # type: ignore[arg-type]  # what is tested


def test_decoder_when_columns_do_not_fit() -> None:
    """Columns of another dtype or of other lengths are refused."""
    offset, good = np.ones(2, np.int64), np.ones(2, np.uint32)
    with pytest.raises(SchemaError, match="stored: expected a 1-D uint32 array"):
        Decoder(offset, good.astype(np.int64), good, good, good)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(ValueError, match="one length"):
        Decoder(offset, good, good, good, good[:1])


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    """Give the open file of a shard that holds SMALL behind ten other bytes."""
    (tmp_path / "shard").write_bytes(b"something " + SMALL.data)
    descriptor = os.open(tmp_path / "shard", os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def reading(run: Run, offset: int) -> Decoder:
    """Return the decoder of a run that begins at some byte of its shard."""
    stored = np.array([len(frame) for frame in run.frames], np.uint32)
    sums = np.array([checksum(frame) for frame in run.frames], np.uint32)
    return Decoder(np.cumsum(stored, dtype=np.int64) - stored + offset, stored, run.raw, run.records, sums)


@needs_libzstd
@pytest.mark.parametrize("runs", [[(0, 2)], [(1, 2), (0, 1)], [(0, 1), (0, 2), (1, 2)], []])
def test_read_gives_the_blocks_of_all_runs(file: int, runs: list[tuple[int, int]]) -> None:
    """In the order that is asked for."""
    found = reading(SMALL, 10).read(runs, [file] * len(runs), bytearray)
    assert found is not None
    assert records_of(found) == [records for run in runs for records in SMALL_RECORDS[slice(*run)]]


@needs_libzstd
@pytest.mark.parametrize("offset", [-1, 9, 11, 2**40])
def test_read_when_the_bytes_are_others(file: int, offset: int) -> None:
    """Before the file, beside the frames, past its end."""
    assert reading(SMALL, offset).read([(0, 1), (1, 2)], [file, file], bytearray) is None


@needs_libzstd
def test_read_when_the_file_cannot_be_read(file: int, tmp_path: Path) -> None:
    """One run of several is enough."""
    folder = os.open(tmp_path, os.O_RDONLY)
    assert reading(SMALL, 10).read([(0, 1), (1, 2)], [file, folder], bytearray) is None
    os.close(folder)


@needs_libzstd
def test_read_when_a_run_is_longer_than_what_is_kept(tmp_path: Path) -> None:
    """Room for the frames grows with the run."""
    noise = np.random.default_rng(1)
    records = [[noise.bytes(2**20)] for _ in range(20)]
    run = Run.of(records)
    (tmp_path / "shard").write_bytes(run.data)
    file = os.open(tmp_path / "shard", os.O_RDONLY)
    decoder = reading(run, 0)
    for runs in ([(0, 1)], [(0, 20)], [(3, 5), (19, 20)]):
        found = decoder.read(runs, [file] * len(runs), bytearray)
        assert found is not None
        assert records_of(found) == [block for start, stop in runs for block in records[start:stop]]
    os.close(file)


@needs_libzstd
def test_decode_on_many_threads_at_once() -> None:
    """Threads share one decoder."""
    run = Run.of([[bytes([number]) * 70_000] for number in range(16)])
    decoder = run.decoder()

    def decode(number: int) -> list[list[bytes]]:
        found = decoder.decode(run.frames[number], number, number + 1, bytearray)
        assert found is not None
        return records_of(found)

    with ThreadPoolExecutor(8) as pool:
        for number, found in zip(list(range(16)) * 8, pool.map(decode, list(range(16)) * 8), strict=True):
            assert found == [[bytes([number]) * 70_000]]


_READ = """
import sys
from datafeed._native import _zstd_version
from datafeed.dataset import Dataset
dataset = Dataset(sys.argv[1])
print(_zstd_version(), [bytes(block.record(0)) for block in dataset.reader.read_run(0, 2)] != [])
"""


def test_reading_without_libzstd(tmp_path: Path) -> None:
    """Where the system's libzstd cannot be loaded, frames are decompressed by the package zstandard."""
    tiny.write_dataset(str(tmp_path / "data"))
    for name in ("libzstd.so.1", "libzstd.1.dylib"):
        (tmp_path / name).write_bytes(b"no library")
    search = {"LD_LIBRARY_PATH": str(tmp_path), "DYLD_LIBRARY_PATH": str(tmp_path)}
    found = subprocess.run(
        [sys.executable, "-c", _READ, str(tmp_path / "data")], env=search, check=True, capture_output=True, text=True
    )
    assert found.stdout.split() == ["0", "True"]

"""The kernels: frame walk, CRC32C, tf.train.Example to columns, columns to tf.train.Example, gather.

Every function checks every bound against hostile bytes. All but trivial ones release the GIL.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

from datafeed.columns import Column, Parsed
from datafeed.schema import Feature

def crc32c(data: Buffer) -> int:
    """Return the CRC32C (Castagnoli) of contiguous bytes, as RFC 3720 defines it."""

def masked_crc32c(data: Buffer) -> int:
    """Return the CRC32C as TFRecord masks it: rotated right by 15 bits, plus 0xa282ead8."""

def _crc32c_by_table(data: Buffer) -> int:
    """Return the CRC32C without the processor's instruction: the path of machines that lack it, for tests."""

def _crc32c_has_instruction() -> bool:
    """Whether `crc32c` uses the processor's instruction here."""

class Block:
    """The raw bytes of one block, with where each record lies in them. Immutable; safe to share between threads.

    Args:
        raw: Whole TFRecords, contiguous. The Block keeps a reference (no copy); they must not change under it.
        records: How many there must be; -1 for any number.
        check_payload: Whether each payload's CRC is checked too (lengths always are).

    Raises:
        CorruptRecord: A length's or payload's checksum is wrong, a record passes the end, or the count differs; with
            `record` and `offset` set.
    """

    def __init__(self, raw: Buffer, records: int = -1, *, check_payload: bool = False) -> None: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def raw(self) -> memoryview:
        """The framed records, end to end: a read-only view that keeps the Block's bytes alive."""
    def __len__(self) -> int: ...
    def record(self, row: int) -> memoryview:
        """Return the payload of one record: a view that keeps the Block's bytes alive. Raises IndexError."""

def _zstd_version() -> int:
    """Return the number of the system's libzstd (10504 for 1.5.4), 0 where a `Decoder` finds none of use."""

class Decoder:
    """Decompress the blocks of a run in one go, by the system's libzstd. Safe to share between threads.

    Args:
        offset: int64[n], where the frame of each block begins in its shard.
        stored: uint32[n], its stored bytes.
        raw: uint32[n], its raw bytes.
        records: uint32[n], its records.
        checksum: uint32[n], the checksum that its frame ends with.
    """

    def __init__(
        self,
        offset: npt.NDArray[np.int64],
        stored: npt.NDArray[np.uint32],
        raw: npt.NDArray[np.uint32],
        records: npt.NDArray[np.uint32],
        checksum: npt.NDArray[np.uint32],
    ) -> None: ...
    def decode(self, data: Buffer, start: int, stop: int, take: Callable[[int], Buffer]) -> list[Block] | None:
        """Decompress consecutive frames, each into memory of its own, and find the records; checksums are compared.

        Args:
            data: The frames of blocks `start` to `stop`, end to end.
            start: The first block.
            stop: The block behind the last.
            take: Gives a writable buffer of so many bytes, which the Block will keep.

        Returns:
            The blocks. None where there is no libzstd, or where anything is not as the columns say or as the writer
            makes it: who wants to know what decodes frame by frame.
        """

    def read(
        self,
        wanted: Sequence[tuple[int, int]],
        descriptors: Sequence[int],
        take: Callable[[int], Buffer],
    ) -> list[Block] | None:
        """Read runs of blocks from files and decode them, all without the GIL.

        Args:
            wanted: Runs (first block, block behind the last), each inside one shard.
            descriptors: Per run, the open file of its shard; read at positions, so that threads may share it.
            take: As `decode` uses it.

        Returns:
            As `decode` does; None, too, where a file cannot be read or ends too early.
        """

def cut_extents(
    stored: npt.NDArray[np.uint32], counts: npt.NDArray[np.int64], nbytes: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Find where each block begins in its shard, and each extent among the blocks.

    Args:
        stored: uint32[n], the stored bytes of each block.
        counts: int64[shards], the blocks of each shard.
        nbytes: Stored bytes at which an extent is closed; it also ends with its shard.

    Returns:
        int64[n], the offset of each block in its shard; int64[extents + 1], the block at which each extent begins, then
        n.

    Raises:
        ValueError: The counts do not add up to n, or `nbytes` is below 1.
    """

class Parser:
    """Turn records into columns. Built once per schema; safe to share between threads.

    Args:
        features: What to parse, in any order; other features in a record are skipped.
    """

    def __init__(self, features: Sequence[Feature]) -> None: ...
    def parse(
        self,
        blocks: Sequence[Block | None],
        which: npt.NDArray[np.int32],
        rows: npt.NDArray[np.int32],
    ) -> list[Column]:
        """Parse record `rows[i]` of `blocks[which[i]]` for each i, in one pass. Those that are packed are gathered.

        Fixed numeric features of one dtype and of shape () share one allocation, (k, n) in C order, so that
        `columns[i].values` are its rows and a caller can find the whole through `.base`.

        Returns:
            A Column per feature, in the order given, owning its memory.

        Raises:
            SchemaError: A record is no Example, lacks a feature that is not optional, or has it with another kind or
                count; with `row` (the i) and `feature` set.
            IndexError: `which` or `rows` points outside.
            TypeError: Packed blocks come from two parsers, or lack a feature.
        """
    def pack(self, block: Block, take: Callable[[int], Buffer]) -> Block:
        """Return a block's records in rows of one size, from which any parser of some of the features gathers faster.

        Args:
            block: The block.
            take: Gives a writable buffer of so many bytes, which the packed block will keep.

        Returns:
            The packed block, which has no `raw` and no `record`. The block itself where its records take no bytes, or
            more than 4 GiB.

        Raises:
            SchemaError: As `parse` raises it.
        """
    @property
    def groups(self) -> list[list[int]]:
        """The features of shape () by dtype: each group shares one allocation."""
    def parse_batch(
        self,
        blocks: Sequence[Block | None],
        which: npt.NDArray[np.int32],
        rows: npt.NDArray[np.int32],
        listed: frozenset[int],
        viewed: frozenset[int],
        empty: Callable[..., npt.NDArray[np.generic]] = ...,
    ) -> Parsed:
        """Parse as `parse` does, without an object for each scalar feature.

        Args:
            blocks: As in `parse`.
            which: As in `parse`.
            rows: As in `parse`.
            listed: Features, by number, that are wanted as bytes objects; those of bytes or utf8 and shape () count.
            viewed: The same, wanted as read-only views of the blocks' memory, which they keep alive.
            empty: Makes the arrays of numbers of a fixed shape, from a shape and a dtype.
        """

class Encoder:
    """Turn columns into framed TFRecords. Built once per schema; safe to share between threads."""

    def __init__(self, features: Sequence[Feature]) -> None: ...
    def encode(self, columns: Sequence[Column], start: int, stop: int, limit: int) -> tuple[bytes, int]:
        """Frame records start, start + 1, ... until `stop`, or until one more would pass `limit` bytes.

        At least one record is framed, whatever its size. Features are written in the order given; a missing one is left
        out; float and int64 lists are packed.

        Returns:
            The framed records end to end, and how many they are.

        Raises:
            RecordTooLarge: A record passes 2**31 - 1 bytes; with `row` set.
            ValueError: A column does not have the form that its feature asks for.
        """

def bytes_list(values: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> list[bytes]:
    """Cut bytes that stand end to end into a list of bytes objects; the copy runs without the GIL."""

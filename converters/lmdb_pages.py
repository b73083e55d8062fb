"""Read the pages of an LMDB environment, without its library.

The library maps the file and trusts it: a page past the end of a file that is cut short ends the process, and a damaged
one may. A file's size alone tells nothing, as a sound environment may end before the last page that it counts: those
that a transaction took and gave back are never written. So the tree is walked here, and each page and node is checked.

A page begins with 16 bytes: its number (u64), padding (u16), flags (u16), the lower and upper bounds of its free room
(u16 each); then come the places of its nodes (u16 each). A node holds its value's size (u32; on a branch the child's
number, the flags being its upper part), flags (u16), the key's size (u16), the key, then the value, or the number of
the first page of those that hold it. Numbers are little-endian and 64 bits wide (mdb.c of LMDB 0.9).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

_HEAD = struct.Struct("<QHHHH")
_META = struct.Struct("<IIQQ")  # magic, version, address, size of the map
_TREE = struct.Struct("<IHHQQQQQ")  # page size or nothing, flags, depth, branches, leaves, overflows, entries, root
_ENDING = struct.Struct("<QQ")  # last page, transaction
_META_NBYTES = _HEAD.size + _META.size + 2 * _TREE.size + _ENDING.size
_MAGIC, _VERSION = 0xBEEFC0DE, 1
_BRANCH, _LEAF, _OVERFLOW, _IS_META = 1, 2, 4, 8
_BIG, _DATABASE, _DUPLICATES = 1, 2, 4  # flags of a node
_SORTED_DUPLICATES = 4  # of a tree
_NODE_NBYTES = 8
_DEEPEST = 32
_NO_PAGE = 2**64 - 1

Pages = npt.NDArray[np.uint64]


class DamagedError(ValueError):
    """Tell what is wrong with an environment, or with a page or value of it."""


class CutShortError(DamagedError):
    """Tell that a page or value lies past the end of the file."""


class Meta(NamedTuple):
    """Hold what the newer of the two first pages says.

    Attributes:
        page_nbytes: The size of a page.
        depth: The levels of the tree.
        leaves: Its pages that hold keys.
        overflows: The pages of values too large for those.
        entries: Its keys.
        root: Its first page.
        transaction: The number of the last one that was committed.
    """

    page_nbytes: int
    depth: int
    leaves: int
    overflows: int
    entries: int
    root: int
    transaction: int


class Node(NamedTuple):
    """Hold a key with its value, or where the value lies.

    Attributes:
        key: The key.
        nbytes: The value's size.
        value: The value; None where it cannot be read, or fills pages of its own.
        page: The first of those pages; 0 where it fills none.
        fault: Why the value cannot be read; empty where it can.
        named: Whether it is a database of that name.
    """

    key: bytes
    nbytes: int
    value: bytes | None = None
    page: int = 0
    fault: str = ""
    named: bool = False


@dataclass(frozen=True, slots=True)
class Environment:
    """Read an environment's unnamed database.

    Args:
        file: The data file; it stays open.
        nbytes: Its size.
        meta: What its first pages say.
    """

    file: BinaryIO
    nbytes: int
    meta: Meta

    @staticmethod
    def of(file: BinaryIO, nbytes: int) -> Environment:
        """Read the first pages.

        Raises:
            DamagedError: It is no environment, or of another version, or has several values a key.
            OSError: It cannot be read.
        """
        first = _meta(file, 0)
        second = _meta(file, first.page_nbytes)
        newer = second if second.transaction > first.transaction else first
        return Environment(file, nbytes, newer._replace(page_nbytes=first.page_nbytes))

    def leaves(self) -> Pages:
        """Return the pages that hold keys, in the order of those.

        Raises:
            DamagedError: A page is not what it should be, or lies past the end of the file.
        """
        if not self.meta.entries:
            return np.empty(0, np.uint64)
        if not 1 <= self.meta.depth <= _DEEPEST:
            raise DamagedError(f"its tree says to be {self.meta.depth} levels deep")
        level = np.array([self.meta.root], np.uint64)
        self._check_places(level)
        for _ in range(self.meta.depth - 1):
            level = self._below(level)
        return level

    def _below(self, level: Pages) -> Pages:
        found: list[Pages] = []
        count = 0
        for page in level.tolist():
            found.append(self._children(page))
            self._check_places(found[-1])
            count += len(found[-1])
            if count > self.nbytes // self.meta.page_nbytes:
                raise DamagedError("its tree has more pages than the file")
        return np.concatenate(found)

    def _check_places(self, pages: Pages) -> None:
        past = pages >= self.nbytes // self.meta.page_nbytes
        if past.any():
            raise CutShortError(
                f"it is cut short: its tree needs page {int(pages[np.argmax(past)])} of {self.meta.page_nbytes} bytes, "
                f"the file ends after {self.nbytes} bytes"
            )

    def _page(self, number: int, kind: int) -> bytes:
        self.file.seek(number * self.meta.page_nbytes)
        data = self.file.read(self.meta.page_nbytes)
        if len(data) < self.meta.page_nbytes:
            raise DamagedError(f"page {number} is cut off")
        found, _, flags, _, _ = _HEAD.unpack_from(data)
        if found != number or not flags & kind:
            raise DamagedError(f"page {number} is damaged: it says to be page {found} with the flags {flags:#x}")
        return data

    def _children(self, number: int) -> Pages:
        data = self._page(number, _BRANCH)
        _, heads = _nodes(data, number)
        parts = heads.astype(np.uint64)
        children: Pages = parts[:, 0] | parts[:, 1] << np.uint64(16) | parts[:, 2] << np.uint64(32)
        return children

    def weights(self, number: int) -> list[int]:
        """Return the bytes of each key with its value of a leaf, wherever that lies; none where the leaf is damaged.

        Raises:
            CutShortError: A value ends after the file.
        """
        try:
            nodes = self.nodes(number)
        except DamagedError:  # reading will come to it
            return []
        for node in nodes:
            if node.fault and node.page:
                raise CutShortError(node.fault)
        return [len(node.key) + node.nbytes for node in nodes]

    def nodes(self, number: int) -> list[Node]:
        """Return what a leaf holds.

        Raises:
            DamagedError: The page as a whole cannot be read.
            OSError: The file cannot be read.
        """
        data = self._page(number, _LEAF)
        places, heads = _nodes(data, number)
        starts = (places + _NODE_NBYTES).tolist()
        return [self._node(data, start, head) for start, head in zip(starts, heads.tolist(), strict=True)]

    def _node(self, data: bytes, start: int, head: Sequence[int]) -> Node:
        low, high, flags, key_nbytes = head
        nbytes = low | high << 16
        begin = start + key_nbytes
        key = data[start:begin]
        if flags & (_DATABASE | _DUPLICATES):
            return Node(key, nbytes, fault=f"it names a database: {NAMED}", named=True)
        if not flags & _BIG:
            fault = "its value ends after its page" if begin + nbytes > len(data) else ""
            return Node(key, nbytes, data[begin : begin + nbytes], fault=fault)
        page = int.from_bytes(data[begin : begin + 8], "little")
        if page * self.meta.page_nbytes + _HEAD.size + nbytes > self.nbytes:
            reason = f"a value of {nbytes} bytes at page {page} ends after the file's {self.nbytes} bytes"
            return Node(key, nbytes, page=page, fault=f"it is cut short: {reason}")
        return Node(key, nbytes, page=page)

    def value(self, node: Node) -> bytes:
        """Return a value.

        Raises:
            DamagedError: It cannot be read.
            OSError: The file cannot be read.
        """
        if node.fault:
            raise DamagedError(node.fault)
        if node.value is not None:
            return node.value
        self.file.seek(node.page * self.meta.page_nbytes)
        data = self.file.read(_HEAD.size + node.nbytes)
        if len(data) < _HEAD.size + node.nbytes:
            raise DamagedError("its value is cut off")
        found, _, flags, _, _ = _HEAD.unpack_from(data)
        if found != node.page or not flags & _OVERFLOW:
            raise DamagedError(f"its value should be at page {node.page}, which is damaged")
        return data[_HEAD.size :]


NAMED = "write the database that you want to an environment of its own, with `mdb_dump -s NAME OLD | mdb_load NEW`"


def _meta(file: BinaryIO, start: int) -> Meta:
    file.seek(start)
    data = file.read(_META_NBYTES)
    if len(data) < _META_NBYTES:
        raise DamagedError("it is cut short: an LMDB environment begins with two pages that describe it")
    flags = _HEAD.unpack_from(data)[2]
    magic, version, _, _ = _META.unpack_from(data, _HEAD.size)
    if magic != _MAGIC or not flags & _IS_META:
        raise DamagedError(
            f"it is no LMDB environment: expected {_MAGIC:#x} at byte {start + _HEAD.size}, found {magic:#x}"
        )
    if version != _VERSION:
        raise DamagedError(f"it is an LMDB environment of version {version}; version {_VERSION} is read")
    at = _HEAD.size + _META.size
    page_nbytes = _TREE.unpack_from(data, at)[0]
    if not 256 <= page_nbytes <= 65536 or page_nbytes & (page_nbytes - 1):
        raise DamagedError(f"its pages say to have {page_nbytes} bytes")
    _, kept, depth, _, leaves, overflows, entries, root = _TREE.unpack_from(data, at + _TREE.size)
    if kept & _SORTED_DUPLICATES:
        raise DamagedError(
            "its keys have several values each (MDB_DUPSORT), which no sample holds: write a key for each"
        )
    _, transaction = _ENDING.unpack_from(data, at + 2 * _TREE.size)
    return Meta(page_nbytes, depth, leaves, overflows, 0 if root == _NO_PAGE else entries, root, transaction)


def _nodes(data: bytes, number: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint16]]:
    """Return where the nodes of a page begin, and their heads (n, 4); all lie within the page."""
    lower = _HEAD.unpack_from(data)[3]
    if not _HEAD.size <= lower <= len(data) or lower % 2:
        raise DamagedError(f"page {number} is damaged: its list of nodes ends at byte {lower}")
    places = np.frombuffer(data, "<u2", (lower - _HEAD.size) // 2, _HEAD.size).astype(np.int64)
    if len(places) and places.max() + _NODE_NBYTES > len(data):
        raise DamagedError(f"page {number} is damaged: a node begins at byte {places.max()}")
    heads = np.frombuffer(data, np.uint8)[places[:, None] + np.arange(_NODE_NBYTES)].view(np.dtype(np.uint16))
    if len(places) and (places + _NODE_NBYTES + heads[:, 3]).max() > len(data):
        raise DamagedError(f"page {number} is damaged: a key ends after it")
    return places, heads

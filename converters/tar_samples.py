"""Group the members of a tar to samples, as WebDataset does.

The key is the path up to the first dot of its last part; what follows that dot, in lower case, is the ending. Members
of one key that follow each other are a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import BinaryIO, NamedTuple

import numpy as np

from datafeed.converters.names import shown
from datafeed.converters.tar import walk
from datafeed.converters.tar_header import BLOCK_NBYTES, DamagedError, Member
from datafeed.framing import LARGEST_NBYTES
from datafeed.sizes import counted

MOST_MEMBERS = 1000  # of a sample
_RECENT = 2**16


class Run(NamedTuple):
    """Name some samples of a tar.

    Attributes:
        start: The byte at which they begin.
        end: The byte at which they end; None for the end of the tar.
        again: Where those begin whose key came before; None where that is to be found out.
    """

    start: int
    end: int | None
    again: tuple[int, ...] | None


@dataclass(slots=True)
class TarSample:
    """Hold the members of one key.

    Attributes:
        key: The key.
        parts: The data by ending.
        flaw: Why it is no sample; empty for a sound one.
        cut: Whether the tar is damaged behind it, so that members may be lost.
        members: The members with their data, as they stand.
        nbytes: What headers and data take.
    """

    key: bytes
    parts: dict[str, bytes] = field(default_factory=dict)
    flaw: str = ""
    cut: bool = False
    members: list[tuple[Member, bytes]] = field(default_factory=list)
    nbytes: int = 0

    def add(self, ending: str, member: Member, data: bytes) -> None:
        """Take one more member; what makes a sample too large is let go."""
        self.nbytes += len(member.head) + len(data)
        if member.flaw:
            self._refuse(f"member {text_of(member.name)}: {member.flaw}")
        elif ending in self.parts:
            self._refuse(f"member {text_of(member.name)} stands there twice")
        if self.nbytes > LARGEST_NBYTES or len(self.members) == MOST_MEMBERS:
            self._refuse(f"more than {counted(MOST_MEMBERS, 'member')} or {LARGEST_NBYTES:,} bytes")
            self.parts, self.members, self.nbytes = {}, [], 0
            return
        self.parts[ending] = data
        self.members.append((member, data))

    def _refuse(self, flaw: str) -> None:
        self.flaw = self.flaw or flaw

    @property
    def raw(self) -> bytes:
        """The members as they stand in the tar, for quarantine."""
        pieces = [
            piece for member, data in self.members for piece in (member.head, data, bytes(-len(data) % BLOCK_NBYTES))
        ]
        return b"".join(pieces)


def split_name(name: bytes) -> tuple[bytes, str] | None:
    """Return the key and the ending of a member's name; None where it lacks one of them."""
    folder, slash, last = name.rpartition(b"/")
    stem, _, ending = last.partition(b".")
    if not stem or not ending:
        return None
    return folder + slash + stem, ending.decode("utf-8", "backslashreplace").lower()


def text_of(name: bytes) -> str:
    """Return a name as text for one line of a message."""
    return shown(name.decode("utf-8", "surrogateescape"))


def group(
    members: Iterator[tuple[Member, bytes]], again: Keys | frozenset[int], on_stray: Callable[[Member, bytes], None]
) -> Iterator[TarSample]:
    """Yield the samples of members.

    Args:
        members: The members and their data.
        again: The keys that came; or where the samples begin whose key did.
        on_stray: What to do with a member that has no key or no ending.

    Raises:
        DamagedError: As `members` does, after the sample before it.
    """
    held: TarSample | None = None
    try:
        for (key, ending), member, data in _named(members, on_stray):
            if held is None or key != held.key:
                if held is not None:
                    yield held
                held = TarSample(key)
                if again.came_before(key) if isinstance(again, Keys) else member.at in again:
                    held.flaw = "its key came before in this tar"
            held.add(ending, member, data)
    except DamagedError:
        if held is not None:
            held.cut = True
            yield held
        raise
    if held is not None:
        yield held


def _named(
    members: Iterator[tuple[Member, bytes]], on_stray: Callable[[Member, bytes], None]
) -> Iterator[tuple[tuple[bytes, str], Member, bytes]]:
    for member, data in members:
        if member.is_folder:
            continue
        named = split_name(member.name)
        if named is None:
            on_stray(member, data)
        else:
            yield named, member, data


def runs(file: BinaryIO, nbytes: int, run_nbytes: int) -> Iterator[Run]:
    """Cut a tar to runs of whole samples by its headers.

    Args:
        file: The tar; it is sought in.
        nbytes: Its size.
        run_nbytes: About how large a run is.
    """
    keys = Keys()
    start, last = 0, None
    again: list[int] = []
    for member in walk(file, nbytes):
        named = None if member.is_folder else split_name(member.name)
        if named is None or named[0] == last:
            continue
        last = named[0]
        if member.at - start >= run_nbytes:
            yield Run(start, member.at, tuple(again))
            start, again = member.at, []
        if keys.came_before(last):
            again.append(member.at)
    yield Run(start, None, tuple(again))


class Keys:
    """Remember which keys came, in 8 bytes each: that two of ten million share them has a chance of 3 in a million."""

    def __init__(self) -> None:
        self._recent: set[int] = set()
        self._sorted = np.empty(0, np.uint64)

    def came_before(self, key: bytes) -> bool:
        """Whether a key came before; from now on it did."""
        digest = int.from_bytes(blake2b(key, digest_size=8).digest())
        if digest in self._recent:
            return True
        if len(self._sorted):
            place = int(np.searchsorted(self._sorted, np.uint64(digest)))
            if place < len(self._sorted) and int(self._sorted[place]) == digest:
                return True
        self._recent.add(digest)
        if len(self._recent) >= max(_RECENT, len(self._sorted) // 8):
            recent = np.fromiter(self._recent, np.uint64, len(self._recent))
            self._sorted = np.sort(np.concatenate([self._sorted, recent]))
            self._recent.clear()
        return False

"""Check the tier of decoded blocks."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
from tiny import SCHEMA, example, framed, record

from datafeed._native import Block, Parser
from datafeed.cache.memory import HostTier, Packer
from datafeed.cache.policy import Policy
from datafeed.schema import Schema, stored

PER_EXTENT = 2


def blocks_of(extent: int) -> tuple[list[Block], weakref.ref[object]]:
    """Return the blocks of an extent, and what tells whether the memory of the first is still held."""
    memory = np.frombuffer(framed([record(extent)]), np.uint8).copy()
    return [Block(memory), Block(framed([record(extent)]))], weakref.ref(memory)


def as_it_is(block: Block) -> Block:
    """Keep a block as it comes."""
    return block


def test_what_is_evicted_is_let_go_of() -> None:
    """Its memory is free at once, unless somebody uses it; the budget is that of the extents."""
    host = HostTier(2 * 100, "lru", as_it_is)
    memories = {}
    for extent in range(3):
        assert host.admit(extent, 100, copied=False)
        blocks, memories[extent] = blocks_of(extent)
        host.put(extent, extent * PER_EXTENT, blocks)
        del blocks
        if extent == 1:
            assert host.get(0, 2, 0) is not None
    assert host.get(2, 4, 1) is None
    assert memories[1]() is None
    used = host.get(0, 2, 0)
    assert used is not None
    for extent in (3, 4):
        host.admit(extent, 100, copied=False)
    assert host.get(0, 2, 0) is None
    assert memories[0]() is not None
    assert bytes(used[0].record(0)) == record(0)
    assert (host.nbytes, host.evicted) == (200, 3)


@pytest.mark.parametrize("policy", ["epoch", "lru"])
def test_a_part_of_an_extent_is_no_whole(policy: Policy) -> None:
    """Blocks come one by one, and a run is here once all of it is."""
    host = HostTier(100, policy, as_it_is)
    blocks, _ = blocks_of(0)
    host.put(0, 0, blocks)
    assert host.get(0, 1, 0) is None
    host.admit(0, 100, copied=False)
    host.put(0, 1, blocks[1:])
    assert host.get(0, 2, 0) is None
    assert host.get(1, 2, 0) == blocks[1:]
    host.put(0, 0, blocks)
    assert host.get(0, 2, 0) == [blocks[0], blocks[1]]


def test_what_takes_less_packed_gives_room() -> None:
    """An extent takes what its blocks would decoded, and once they came what they take in fact."""
    host = HostTier(400, "epoch", Packer(SCHEMA).pack)
    blocks, _ = blocks_of(0)
    decoded = sum(block.nbytes for block in blocks)
    assert host.admit(0, decoded, copied=False)
    assert host.nbytes == decoded
    kept = host.put(0, 0, blocks)
    assert host.get(0, 2, 0) == kept
    assert host.nbytes == sum(block.nbytes for block in kept) < decoded
    host.put(0, 0, blocks)
    assert host.nbytes == sum(block.nbytes for block in kept)
    assert host.admit(1, 400 - host.nbytes, copied=False)


def test_a_block_that_does_not_fit_the_schema_stays_as_it_is() -> None:
    """Its readers are told by whoever parses it."""
    block = Block(framed([b"no example"]))
    assert Packer(SCHEMA).pack(block) is block


def test_a_block_that_would_take_more_stays_as_it_is() -> None:
    """Where most features are missing: a place is kept for each, which their encoding does not have."""
    schema = Schema([stored("a", "int64"), *(stored(name, "utf8", optional=True) for name in "bcde")])
    block = Block(framed([example({"a": [1]})]))
    assert Parser(schema.features).pack(block, bytearray).nbytes > block.nbytes
    assert Packer(schema).pack(block) is block


def test_what_was_not_admitted_is_not_kept() -> None:
    """A full tier lets blocks pass."""
    host = HostTier(100, "epoch", as_it_is)
    assert host.admit(0, 100, copied=False)
    assert not host.admit(1, 100, copied=False)
    host.put(1, 2, blocks_of(1)[0])
    assert host.get(2, 4, 1) is None

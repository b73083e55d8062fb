"""Test how a task becomes parts."""

from __future__ import annotations

import pickle

import pytest
from numbered import SCHEMA, Numbered

from datafeed.converters.encode import KEPT_REASONS, PART_NBYTES, Bad, Part, Recipe, encode_task
from datafeed.converters.source import OnError
from datafeed.converters.tasks import Task
from datafeed.errors import BadItem

SOURCE = Numbered(60, unit_rows=30, bad=frozenset({0, 29, 31, 58, 59}))


def _recipe(source: Numbered, on_error: OnError = "quarantine", block_size: int = 700) -> Recipe:
    return Recipe(source, SCHEMA, block_size, 3, on_error, None)


def _encode(source: Numbered, on_error: OnError = "quarantine", first_block: int = 0) -> list[Part]:
    return list(encode_task(_recipe(source, on_error), Task(0, source.units(), 0), first_block))


def _blocks(parts: list[Part]) -> list[tuple[bytes, int, int, int]]:
    return [
        (frame.tobytes(), raw, records, skipped)
        for part in parts
        for frame, raw, records, skipped in zip(
            part.frames, part.raw.tolist(), part.records.tolist(), part.skipped[:-1].tolist(), strict=True
        )
    ]


def test_task_begun_at_any_block_gives_the_rest() -> None:
    """From every block on, blocks, counts and bad items are those of the whole task from there."""
    whole = _encode(SOURCE)
    blocks = _blocks(whole)
    bad: list[Bad] = [item for part in whole for item in part.bad]
    assert len(blocks) > 5
    assert [item.where for item in bad] == [f"rows:{row}" for row in (0, 29, 31, 58, 59)]
    for first in range(len(blocks) + 1):
        rest = _encode(SOURCE, first_block=first)
        assert _blocks(rest) == blocks[first:]
        assert [item for part in rest for item in part.bad] == [item for item in bad if item.block >= first]
        assert rest[-1].skipped[-1] == whole[-1].skipped[-1] == 0


def test_counts_of_bad_items_add_up() -> None:
    """Every bad item belongs to one block, or comes after the last."""
    parts = _encode(SOURCE)
    assert sum(int(part.skipped.sum()) for part in parts) == 5


def test_task_of_bad_items_alone_counts_them_behind_its_blocks() -> None:
    """A task without a block gives one part, with its bad items at the end."""
    (part,) = _encode(Numbered(9, bad=frozenset(range(9))))
    assert (len(part), part.skipped.tolist(), len(part.bad)) == (0, [9], 9)


def test_skip_keeps_the_first_reasons_without_bytes() -> None:
    """Skipping keeps a few reasons a task, and no bytes."""
    source = Numbered(60, bad=frozenset(range(0, 60, 2)))
    bad = [item for part in _encode(source, "skip") for item in part.bad]
    assert len(bad) == KEPT_REASONS
    assert all(item.data is None for item in bad)


def test_raise_gives_the_blocks_before_the_bad_item() -> None:
    """The first bad item is raised, after the whole blocks before it."""
    source = Numbered(60, chunk_rows=5, bad=frozenset({40}))
    parts = encode_task(_recipe(source, "raise"), Task(0, source.units(), 0))
    before = next(parts)
    assert len(before) > 2
    with pytest.raises(BadItem, match="rows:40"):
        next(parts)


def test_large_task_comes_in_parts() -> None:
    """A task of 20 MB comes in parts of 16 MiB at most, and a block; a worker holds no more of it."""
    source = Numbered(200, unit_rows=200, chunk_rows=10, blob=200_000, letters=256)
    recipe = Recipe(source, SCHEMA, 2**18, -1, "raise", None)
    sizes = [sum(map(len, part.frames)) for part in encode_task(recipe, Task(0, source.units(), 0))]
    assert len(sizes) == 2
    assert PART_NBYTES <= sizes[0] < PART_NBYTES + 2**19


def test_part_travels_without_a_copy() -> None:
    """Pickled with protocol 5, a part's frames stay outside of the stream."""
    (part,) = _encode(SOURCE)
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(part, protocol=5, buffer_callback=buffers.append)
    frames = {bytes(frame) for frame in part.frames}
    assert frames <= {buffer.raw().tobytes() for buffer in buffers}
    assert not any(frame in data for frame in frames)

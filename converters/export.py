"""Export a dataset to plain TFRecord files with DALI's index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from datafeed._native import Block
from datafeed.blockindex import BlockIndex, read_index
from datafeed.errors import OutputDiffers
from datafeed.framing import FRAMING_NBYTES
from datafeed.manifest import read_manifest
from datafeed.reader import BlockReader
from datafeed.sizes import some
from datafeed.storage import Sink, open_store

_RUN_NBYTES = 8 * 2**20  # stored bytes read at once


@dataclass(frozen=True, slots=True)
class ExportReport:
    """Describe a finished export.

    Args:
        dest: Where it is.
        files: How many TFRecord files; each has an index beside it.
        records: Their records.
        nbytes: The bytes of the TFRecord files.
    """

    dest: str
    files: int
    records: int
    nbytes: int


def export_tfrecord(
    dataset: str,
    dest: str,
    *,
    storage_options: Mapping[str, object] | None = None,
    dest_options: Mapping[str, object] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> ExportReport:
    """Write each shard as a plain TFRecord file, and beside it the index that DALI's reader asks for.

    The index has a line per record: its offset in the file and its size there, framing included, as DALI's
    `tfrecord2idx` writes it. Every block is verified before its bytes are written, and each file appears whole.

    Args:
        dataset: A committed dataset, a path or URL.
        dest: A directory that is empty or does not exist, a path or URL.
        storage_options: Passed to the dataset's fsspec file system.
        dest_options: Passed to the destination's fsspec file system.
        on_progress: Called after each file with the records written so far and in all.

    Returns:
        What was written.

    Raises:
        DatasetNotFound: No dataset is there.
        CorruptData: A block is damaged.
        OutputDiffers: The destination is not empty.
        OutputError: The destination cannot be written, or is full.
    """
    store, out = open_store(dataset, storage_options), open_store(dest, dest_options)
    try:
        names = out.names()
    except NotADirectoryError as exc:
        raise OutputDiffers(f"{out.url} is a file: name a new or empty directory as the destination") from exc
    if names:
        raise OutputDiffers(f"{out.url} is not empty: it holds {some(list(map(repr, names)), 1)}; name another place")
    manifest = read_manifest(store)
    index = read_index(store, manifest)
    records = start = 0
    for number, shard in enumerate(manifest.shards):
        name = f"shard-{number:06d}"
        blocks = _blocks(BlockReader(store, manifest, index), index, range(start, start + shard.blocks))
        with out.writer(f"{name}.tfrecord") as sink:
            lines = _write(sink, blocks)
        with out.writer(f"{name}.idx") as sink:
            sink.write("".join(lines).encode())
        start += shard.blocks
        records += shard.records
        if on_progress is not None:
            on_progress(records, manifest.records)
    return ExportReport(out.url, len(manifest.shards), records, manifest.raw_bytes)


def _blocks(reader: BlockReader, index: BlockIndex, numbers: range) -> Iterator[Block]:
    """Read the blocks of a shard, some MB at a time."""
    start = numbers.start
    while start < numbers.stop:
        stop = start + 1
        nbytes = int(index.stored[start])
        while stop < numbers.stop and nbytes < _RUN_NBYTES:
            nbytes += int(index.stored[stop])
            stop += 1
        yield from reader.read_run(start, stop)
        start = stop


def _write(sink: Sink, blocks: Iterable[Block]) -> list[str]:
    """Write the records of blocks, and return their lines of the index."""
    lines: list[str] = []
    offset = 0
    for block in blocks:
        sink.write(block.raw)
        for row in range(len(block)):
            nbytes = len(block.record(row)) + FRAMING_NBYTES
            lines.append(f"{offset} {nbytes}\n")
            offset += nbytes
    return lines

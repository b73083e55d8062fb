"""Read the record batches of an Arrow file that holds them as they lie in memory, or of one that is unpacked."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from datafeed.columns import offsets_of
from datafeed.converters.arrow_facts import Run
from datafeed.converters.arrow_layout import Layout, Span
from datafeed.converters.files import Files
from datafeed.converters.leaves import Leaf
from datafeed.converters.sound import check_sound
from datafeed.converters.source import Numbers
from datafeed.storage import local_path

if TYPE_CHECKING:
    import pyarrow as pa

_READ_NBYTES = 2**20  # of a remote file, beside the messages, which Arrow asks for as a whole
_PICKED_NBYTES = 2**21  # each small value that is read maps 64 KiB around it
_AROUND_NBYTES = 2**15  # rows that are smaller are read without what lies around them


def batches_of(files: Files, path: str, run: Run, leaves: Sequence[Leaf]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a run, of which the leaves were checked."""
    names = {leaf.path[0] for leaf in leaves}
    skip, left = run.skip, run.rows
    with files.open(path, read_ahead=_READ_NBYTES) as raw:
        for batch in _read(_mapped(path, raw), run, names):
            part = batch.slice(skip, left)
            skip = 0
            left -= len(part)
            check_sound(part, leaves)
            yield part
            if not left:
                return


def picked(
    files: Files, path: str, layout: Layout, rows: Numbers, leaves: Sequence[Leaf]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Read rows of a local file by number.

    Args:
        files: What reaches it.
        path: The file.
        layout: Where its record batches lie, which are not compressed.
        rows: (n,) The rows' numbers, ascending.
        leaves: What is wanted of them.

    Yields:
        Rows in order, copied, some MB at a time, each time with the place of the first among all.
    """
    import pyarrow as pa

    starts = offsets_of([batch.rows for batch in layout.batches])
    cuts = np.searchsorted(rows, starts)
    touched = np.flatnonzero(np.diff(cuts)).tolist()
    nbytes = sum(end - start for start, end in (batch.span for batch in layout.batches))
    names = {leaf.path[0] for leaf in leaves}
    with files.open(path) as raw:
        memory = mmap.mmap(raw.fileno(), 0, prot=mmap.PROT_READ)
        if nbytes < _AROUND_NBYTES * int(starts[-1]):
            memory.madvise(mmap.MADV_RANDOM)
        place, held = 0, _Held()
        for number, batch in zip(touched, _chosen(memory, layout, touched), strict=True):
            check_sound(batch, leaves)
            wanted = [column for column, name in enumerate(batch.schema.names) if name in names]
            those = rows[cuts[number] : cuts[number + 1]] - starts[number]
            held.add(batch.select(wanted).take(pa.array(those)))
            if held.nbytes >= _PICKED_NBYTES:
                yield from held.joined(place)
                place = int(cuts[number + 1])
                memory.madvise(mmap.MADV_DONTNEED)  # else the file counts as this process's memory once it was read
        yield from held.joined(place)


class _Held:
    """Gather rows of several record batches."""

    def __init__(self) -> None:
        self._parts: list[pa.RecordBatch] = []
        self.nbytes = 0

    def add(self, part: pa.RecordBatch) -> None:
        self._parts.append(part)
        self.nbytes += part.nbytes

    def joined(self, place: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield what was gathered, with the place of its first row, and forget it."""
        import pyarrow as pa

        if self._parts:
            for batch in pa.Table.from_batches(self._parts).combine_chunks().to_batches():
                yield place, batch
                place += len(batch)
        self._parts, self.nbytes = [], 0


def _chosen(memory: mmap.mmap, layout: Layout, numbers: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """Yield some record batches of a file that lies in memory."""
    import pyarrow as pa
    from pyarrow import ipc

    whole = pa.BufferReader(pa.py_buffer(memory))
    if layout.stream:
        spans, before = [layout.schema], 0
        for batch in map(layout.batches.__getitem__, numbers):  # a later dictionary may take an earlier one's place
            spans += [*layout.dictionaries[before : batch.before], batch.span]
            before = batch.before
        yield from ipc.open_stream(pa.PythonFile(_Spliced(whole, spans), "r"))
        return
    file = ipc.open_file(whole)
    for number in numbers:
        yield file.get_batch(number)


def _mapped(path: str, raw: BinaryIO) -> pa.NativeFile:
    import pyarrow as pa

    if local_path(path) is None:
        return pa.PythonFile(raw, "r")
    return pa.BufferReader(pa.py_buffer(mmap.mmap(raw.fileno(), 0, prot=mmap.PROT_READ)))


def _read(whole: pa.NativeFile, run: Run, names: set[str]) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of a run with the fields of these names."""
    import pyarrow as pa
    from pyarrow import ipc

    if run.spans:
        schema = ipc.open_stream(pa.PythonFile(_Spliced(whole, run.spans[:1]), "r")).schema
        yield from ipc.open_stream(pa.PythonFile(_Spliced(whole, run.spans), "r"), options=_only(schema, names))
        return
    file = ipc.open_file(whole)
    if run.packed or isinstance(whole, pa.PythonFile):  # else it would copy the columns, which lie in memory
        file = ipc.open_file(whole, options=_only(file.schema, names))
    for number in range(*run.batches):
        yield file.get_batch(number)


def _only(schema: pa.Schema, names: set[str]) -> pa.ipc.IpcReadOptions:
    from pyarrow import ipc

    wanted = [number for number, name in enumerate(schema.names) if name in names]
    # A worker has one core; Arrow's own threads would only add to those of the other workers.
    return ipc.IpcReadOptions(included_fields=wanted, use_threads=False)


class _Spliced:
    """Read spans of a file as if they stood end to end; no read passes the end of a span."""

    closed = False

    def __init__(self, whole: pa.NativeFile, spans: Sequence[Span]) -> None:
        self._whole = whole
        self._left = list(reversed(spans))

    def read_buffer(self, nbytes: int) -> pa.Buffer:
        """Return the next bytes, which may be the file's own memory."""
        start, end = self._left.pop() if self._left else (0, 0)
        nbytes = min(nbytes, end - start)
        if start + nbytes < end:
            self._left.append((start + nbytes, end))
        self._whole.seek(start)
        return self._whole.read_buffer(nbytes)

    read = read_buffer

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def close(self) -> None:
        """Leave the file open: it belongs to the caller."""
        self.closed = True

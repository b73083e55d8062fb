"""Write the workloads with other people's writers, each process its share, until the bytes are on the disk."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from datafeed.bench.case import Case, Measure, Sample
from datafeed.bench.workloads import Name, find

if TYPE_CHECKING:
    import pyarrow as pa

_FILE_NBYTES = 100_000_000
_ROW_GROUP = 65_536


@dataclass(frozen=True, slots=True)
class Share:
    """Say what one process writes.

    Args:
        raw: The folder of the raw workload.
        start: Its first sample.
        end: The sample after its last.
        dest: An empty folder of its own.
    """

    raw: Path
    start: int
    end: int
    dest: Path


Write = Callable[[Share], None]


def measure_writer(case: Case, write: Write, name: Name) -> Sample:
    """Write a workload twice, as `measure_convert` does: the first pays for imports, the second is the figure.

    Args:
        case: How many processes, and where the data are.
        write: Writes the share of one process.
        name: The workload.

    Returns:
        Records per second; among the facts are the stored bytes.
    """
    workload = find(case.raw(name))
    dest = case.scratch(f"written-{name}")
    bounds = [workload.count * number // case.workers for number in range(case.workers + 1)]
    shares = [Share(case.raw(name), start, end, dest / str(start)) for start, end in itertools.pairwise(bounds)]
    with ProcessPoolExecutor(case.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for _ in range(2):
            shutil.rmtree(dest, ignore_errors=True)
            begun = time.perf_counter()
            list(pool.map(partial(_durable, write), shares))
            seconds = time.perf_counter() - begun
    stored = sum(path.stat().st_size for path in dest.rglob("*") if path.is_file())
    shutil.rmtree(dest)
    return Sample(workload.count / seconds, workload.count, seconds, facts={"stored_bytes": stored})


def _durable(write: Write, share: Share) -> None:
    """Write, and wait until the disk has it, as a conversion of ours does before it commits."""
    share.dest.mkdir(parents=True)
    write(share)
    for path in share.dest.rglob("*"):
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


def _tokens(share: Share) -> Iterator[npt.NDArray[np.uint16]]:
    yield from np.load(share.raw / "tokens.npy", mmap_mode="r")[share.start : share.end]


def _tables(share: Share) -> Iterator[pa.Table]:
    """Read the rows of one share, a row group at a time."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(share.raw / "tabular.parquet") as file:
        first = 0
        for number in range(file.num_row_groups):
            rows = file.metadata.row_group(number).num_rows
            low, high = max(share.start, first), min(share.end, first + rows)
            if low < high:
                yield file.read_row_group(number).slice(low - first, high - low)
            first += rows


def _rows(share: Share) -> Iterator[bytes]:
    """Pack each row of the table into bytes, column after column: the least that a reader can use."""
    for table in _tables(share):
        columns = {name: table.column(name).to_numpy() for name in table.column_names}
        packed = np.empty(table.num_rows, [(name, values.dtype) for name, values in columns.items()])
        for name, values in columns.items():
            packed[name] = values
        data = packed.tobytes()
        yield from (data[at : at + packed.itemsize] for at in range(0, len(data), packed.itemsize))


def _examples(share: Share) -> Iterator[bytes]:
    """Make what our shards hold: a tf.train.Example of each row, as people who keep such records in ArrayRecord do."""
    import tensorflow as tf

    train = tf.train
    for table in _tables(share):
        columns = {name: table.column(name).to_pylist() for name in table.column_names}
        floats = [name for name in columns if table.schema.field(name).type == "float"]
        for values in zip(*columns.values(), strict=True):
            features = {
                name: train.Feature(float_list=train.FloatList(value=[value]))
                if name in floats
                else train.Feature(int64_list=train.Int64List(value=[value]))
                for name, value in zip(columns, values, strict=True)
            }
            yield train.Example(features=train.Features(feature=features)).SerializeToString()


def _images(share: Share) -> Iterator[tuple[bytes, int, str]]:
    number = 0
    for label, folder in enumerate(sorted(os.listdir(share.raw / "classes"))):
        for name in sorted(os.listdir(share.raw / "classes" / folder)):
            if share.start <= number < share.end:
                yield (share.raw / "classes" / folder / name).read_bytes(), label, f"{folder}/{name}"
            number += 1


def _litdata_tokens(share: Share, compression: str) -> None:
    from litdata.streaming.writer import BinaryWriter

    writer = BinaryWriter(str(share.dest), compression=compression, chunk_bytes=_FILE_NBYTES)
    for number, tokens in enumerate(_tokens(share)):
        writer.add_item(number, np.asarray(tokens))
    writer.done()


def _array_record(share: Share, records: Callable[[Share], Iterator[bytes]], group: int) -> None:
    from array_record.python.array_record_module import ArrayRecordWriter

    writer = ArrayRecordWriter(str(share.dest / "part.array_record"), f"group_size:{group},zstd:3")
    for record in records(share):
        writer.write(record)
    writer.close()


def _token_bytes(share: Share) -> Iterator[bytes]:
    return (tokens.tobytes() for tokens in _tokens(share))


def _image_records(share: Share) -> Iterator[bytes]:
    return (label.to_bytes(4, "little") + path.encode() + b"\0" + data for data, label, path in _images(share))


def _parquet(share: Share) -> None:
    import pyarrow.parquet as pq

    writer = None
    for table in _tables(share):
        writer = writer or pq.ParquetWriter(share.dest / "part.parquet", table.schema, compression="zstd")
        writer.write_table(table, row_group_size=_ROW_GROUP)
    if writer is not None:
        writer.close()


def _tensorflow(share: Share) -> None:
    import tensorflow as tf

    train = tf.train
    with tf.io.TFRecordWriter(str(share.dest / "part.tfrecord")) as writer:
        for data, label, path in _images(share):
            features = {
                "image": train.Feature(bytes_list=train.BytesList(value=[data])),
                "label": train.Feature(int64_list=train.Int64List(value=[label])),
                "path": train.Feature(bytes_list=train.BytesList(value=[path.encode()])),
            }
            writer.write(train.Example(features=train.Features(feature=features)).SerializeToString())


def _webdataset(share: Share) -> None:
    from webdataset import ShardWriter

    with ShardWriter(f"{share.dest}/%06d.tar", maxsize=_FILE_NBYTES, maxcount=10**9, verbose=0) as writer:
        for data, label, path in _images(share):
            writer.write({"__key__": path.removesuffix(".jpg"), "jpg": data, "cls": label})


_WRITERS: dict[str, tuple[Write, Name]] = {
    "tokens/LitData zstd": (partial(_litdata_tokens, compression="zstd"), "tokens"),
    "tokens/LitData zstd:1": (partial(_litdata_tokens, compression="zstd:1"), "tokens"),
    "tokens/ArrayRecord zstd": (partial(_array_record, records=_token_bytes, group=64), "tokens"),
    "tabular/ArrayRecord zstd of packed rows": (partial(_array_record, records=_rows, group=256), "tabular"),
    "tabular/ArrayRecord zstd of Examples": (partial(_array_record, records=_examples, group=256), "tabular"),
    "tabular/parquet zstd": (_parquet, "tabular"),
    "images/ArrayRecord zstd": (partial(_array_record, records=_image_records, group=1), "images"),
    "images/TensorFlow": (_tensorflow, "images"),
    "images/webdataset": (_webdataset, "images"),
}

WRITERS: dict[str, Measure] = {
    f"write {name}": partial(measure_writer, write=write, name=workload) for name, (write, workload) in _WRITERS.items()
}

"""List the kinds of raw data sets."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from datafeed.converters.options import SourceOptions
from datafeed.converters.source import Source, Where


@dataclass(frozen=True, slots=True)
class Kind:
    """Describe a kind of source.

    Args:
        place: The module of this package and the class in it, "module:Class"; imported when it is needed.
        what: What it reads, for a person.
        suffixes: The ends of names that tell it, in lower case.
        marks: Names of files that tell it of the folder that holds one, with bytes that begin of it must hold.
        options: What only this kind and its like heed, as the command line writes it.
        extra: The extra of this distribution that it needs; empty for none.
    """

    place: str
    what: str
    suffixes: tuple[str, ...] = ()
    marks: tuple[tuple[str, bytes], ...] = ()
    options: tuple[str, ...] = ()
    extra: str = ""

    def open(self, path: Where, options: SourceOptions) -> Source:
        """Return the source that paths or URLs hold; nothing of it is open."""
        module, _, name = self.place.partition(":")
        found = getattr(importlib.import_module(f"{__package__}.{module}"), name)
        return cast("Callable[[Where, SourceOptions], Source]", found)(path, options)


KINDS = {
    "images": Kind(
        "image_folder:ImageFolder",
        "a folder of JPEG, PNG or WebP files, a folder per class",
        (".jpg", ".jpeg", ".png", ".webp"),
        options=("--labels", "--no-shuffle", "--seed"),
    ),
    "audio": Kind(
        "audio:AudioFolder",
        "a folder of WAV, FLAC or MP3 files, a folder per class",
        (".wav", ".flac", ".mp3"),
        options=("--no-shuffle", "--seed"),
    ),
    "webdataset": Kind(
        "webdataset:WebDataset",
        "tar files in which files of one key make a sample",
        (".tar", ".tar.gz", ".tgz", ".tar.zst"),
        options=("--int64-lists",),
    ),
    "parquet": Kind(
        "parquet:Parquet", "parquet files", (".parquet", ".pq"), options=("--int64-lists",), extra="parquet"
    ),
    "arrow": Kind(
        "arrow_files:ArrowFiles",
        "Arrow IPC and Feather files",
        (".arrow", ".feather", ".ipc"),
        options=("--int64-lists",),
        extra="parquet",
    ),
    "huggingface": Kind(
        "huggingface:SavedDataset",
        "a folder that datasets.save_to_disk wrote",
        marks=(("state.json", b"_data_files"), ("dataset_dict.json", b"splits")),
        options=("--int64-lists",),
        extra="parquet",
    ),
    "csv": Kind(
        "csv:Csv",
        "comma- or tab-separated text with a header",
        (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.zst", ".tsv.zst"),
        options=("--type",),
    ),
    "jsonl": Kind(
        "jsonl:JsonLines",
        "one JSON object a line",
        tuple(f".{name}{packed}" for name in ("jsonl", "ndjson", "json") for packed in ("", ".gz", ".zst")),
        options=("--type", "--int64-lists"),
    ),
    "text": Kind(
        "text:Text",
        "documents (lines of txt, jsonl or parquet) as token ids",
        options=("--tokenizer", "--seq-len", "--one-document", "--separator", "--tail", "--text", "--int64-lists"),
        extra="text",
    ),
    "numpy": Kind(
        "numpy_files:NumpyFiles",
        "NumPy arrays whose first axis counts samples",
        (".npy", ".npz"),
        options=("--int64-lists",),
    ),
    "hdf5": Kind(
        "hdf5:Hdf5",
        "HDF5 data sets with one leading axis",
        (".h5", ".hdf5", ".he5"),
        options=("--int64-lists",),
        extra="hdf5",
    ),
    "lmdb": Kind("lmdb:Lmdb", "LMDB environments, raw keys and values", (".mdb", ".lmdb")),
    "mds": Kind(
        "mds:Mds",
        "MosaicML Streaming shards",
        (".mds", ".mds.zstd"),
        (("index.json", b'"format": "mds"'),),
        options=("--int64-lists",),
    ),
    "litdata": Kind(
        "litdata:LitData",
        "LitData chunks of simple items",
        marks=(("index.json", b'"chunk_bytes"'),),  # its first entry has it; what tells more is behind all chunks
        options=("--seq-len", "--int64-lists"),
        extra="parquet",
    ),
    "tfrecord": Kind(
        "tfrecord:TFRecords",
        "TFRecord files of Example or SequenceExample, plain, gzip or zlib",
        (".tfrecord", ".tfrecords", ".tfrec", ".record"),
        options=("--int64-lists",),
    ),
}

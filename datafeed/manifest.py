"""Read or write `dataset.json`, the object that commits a dataset."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, cast

from datafeed._native import crc32c
from datafeed.errors import CorruptData, CorruptIndex, DatasetNotFound, UnsupportedVersion
from datafeed.header import VERSION, DatasetHeader, Fields, canonical
from datafeed.schema import Schema
from datafeed.shard import ShardInfo, read_info, shard_name
from datafeed.sizes import counted, some
from datafeed.storage import Store

MANIFEST_NAME = "dataset.json"
INDEX_NAME = "blocks.idx"
PLAN_NAME = "journal/plan.json"  # of a conversion that is not committed
Codec = Literal["zstd", "none"]
_TOTALS = ("nbytes", "raw_bytes", "records", "skipped")
_LOOKED_INTO = 16  # folders, for datasets: each is a request
_NAME_LIMIT = 255  # bytes; what ext4, xfs and others allow


@dataclass(frozen=True, slots=True)
class Manifest:
    """Describe a committed dataset.

    Args:
        header: What every shard says about it.
        codec: "zstd", or "none" for plain TFRecords that are read where they lie.
        shards: Its shards, in order.
        index_name: The object that holds the block index.
        index_nbytes: Its size.
        index_sha256: Its hexadecimal SHA-256.
        appended: Where the samples of each run came from that appended shards, in order.
    """

    header: DatasetHeader
    codec: Codec
    shards: tuple[ShardInfo, ...]
    index_name: str
    index_nbytes: int
    index_sha256: str
    appended: tuple[Mapping[str, object], ...] = ()

    @property
    def records(self) -> int:
        """How many records it holds."""
        return sum(shard.records for shard in self.shards)

    @property
    def nbytes(self) -> int:
        """The stored bytes of its shards."""
        return sum(shard.nbytes for shard in self.shards)

    @property
    def raw_bytes(self) -> int:
        """What its blocks hold when decompressed."""
        return sum(shard.raw_bytes for shard in self.shards)

    @property
    def skipped(self) -> int:
        """Items of the source that were skipped as bad."""
        return sum(shard.skipped for shard in self.shards)

    @property
    def schema(self) -> Schema:
        """What every record holds."""
        return self.header.schema

    @property
    def dataset_id(self) -> str:
        """The dataset's id, 32 hexadecimal digits."""
        return self.header.dataset_id

    @property
    def content_id(self) -> str:
        """What names it where copies of its bytes are kept, 32 hexadecimal digits.

        Datasets of one schema and provenance have one `dataset_id`, whatever they hold: so the first shard counts, too.
        It stays when shards are appended.
        """
        return hashlib.sha256(f"{self.dataset_id} {self.shards[0].sha256 if self.shards else ''}".encode()).hexdigest()[
            :32
        ]

    @property
    def digest(self) -> str:
        """The hexadecimal SHA-256 of `to_bytes()`."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def to_bytes(self) -> bytes:
        """Return the object's bytes: canonical JSON and a newline, with the CRC32C of itself without that field."""
        fields: dict[str, object] = {
            "format": "datafeed",
            "version": VERSION,
            "header": self.header.to_json(),
            "codec": self.codec,
            "index": {"name": self.index_name, "nbytes": self.index_nbytes, "sha256": self.index_sha256},
            "shards": [asdict(shard) for shard in self.shards],
            "totals": {key: getattr(self, key) for key in _TOTALS},
        }
        if self.appended:
            fields["appended"] = [dict(provenance) for provenance in self.appended]
        return _sealed(fields)

    @staticmethod
    def from_bytes(data: bytes) -> Manifest:
        """Read what `to_bytes` returned; every name, count and sum is checked.

        Raises:
            CorruptIndex: It is damaged or no manifest.
            UnsupportedVersion: A later release wrote it.
        """
        fields = _opened(data)
        codec = fields.text("codec")
        if codec not in {"zstd", "none"}:
            fields.fail(f"expected codec 'zstd' or 'none', found {codec!r}")
        index = fields.within("index")
        manifest = Manifest(
            header=DatasetHeader.from_json(fields.value("header"), name=MANIFEST_NAME),
            codec="zstd" if codec == "zstd" else "none",
            shards=tuple(read_info(Fields(value, MANIFEST_NAME)) for value in fields.items("shards")),
            index_name=index.text("name"),
            index_nbytes=index.integer("nbytes"),
            index_sha256=index.hex("sha256", 64),
            appended=_appended(fields),
        )
        _check_names(manifest, fields)
        totals = fields.within("totals")
        for key in _TOTALS:
            if totals.integer(key) != getattr(manifest, key):
                fields.fail(f"the total {key} is {totals.integer(key)}, the shards add up to {getattr(manifest, key)}")
        return manifest


def _appended(fields: Fields) -> tuple[Mapping[str, object], ...]:
    found = fields.items("appended") if fields.has("appended") else []
    if not all(isinstance(value, dict) for value in found):
        fields.fail("expected objects as 'appended'")
    return tuple(cast("list[Mapping[str, object]]", found))


def index_name(appended: int) -> str:
    """Return the object's name of the block index of a dataset to which shards were appended so many times."""
    return f"blocks-{appended:06d}.idx" if appended else INDEX_NAME


def read_manifest(store: Store) -> Manifest:
    """Read a dataset's manifest.

    Args:
        store: Where the dataset is.

    Returns:
        The manifest.

    Raises:
        DatasetNotFound: There is none; the message says what stands there instead and what to do.
        CorruptIndex: It is damaged.
        UnsupportedVersion: A later release wrote it.
    """
    try:
        data = store.read(MANIFEST_NAME)
    except (FileNotFoundError, NotADirectoryError) as exc:
        raise DatasetNotFound(f"no dataset at {store.url}: {_advice(store)}") from exc
    try:
        return Manifest.from_bytes(data)
    except CorruptData as exc:
        exc.dataset = store.url
        raise


def _advice(store: Store) -> str:
    try:
        names, folders = store.names(), store.folders()
    except NotADirectoryError:
        return "it is a file; name the directory that `datafeed convert` wrote"
    unfinished = how_to_finish(store, names)
    if unfinished:
        return unfinished
    if folders == ["journal"] and all(name.startswith(".") for name in names):
        return "a journal alone, of a conversion that finished no shard: run the same `datafeed convert` again"
    if store.url.endswith("/journal") and "plan.json" in names:
        return "it is the journal of an unfinished conversion: name the directory above it"
    inside = [repr(name) for name in folders[:_LOOKED_INTO] if store.exists(f"{name}/{MANIFEST_NAME}")]
    return f"there is one in {some(inside)} there: name that folder" if inside else _raw_data(store.url, names, folders)


def _raw_data(url: str, names: Sequence[str], folders: Sequence[str]) -> str:
    if any(".tfrecord" in name for name in names):
        return f"run `datafeed index {url}` to read plain TFRecords in place, or `datafeed convert {url} DEST`"
    seen = [repr(name) for name in (*names, *(f"{name}/" for name in folders)) if not name.startswith(".")]
    if seen:
        return f"raw data, it seems ({some(seen, 1)}): run `datafeed convert {url} DEST`"
    return "nothing stands there that can be listed; `datafeed convert SOURCE DEST` makes a dataset of raw data"


def how_to_finish(store: Store, names: Sequence[str]) -> str:
    """Tell what to do where shards stand without their manifest, or a conversion was begun.

    Args:
        store: Where they are.
        names: The objects there.

    Returns:
        What stands there and the next step; empty where it is something else.
    """
    count = sum(name.startswith("shard-") and name.endswith(".tfrecord.zst") for name in names)
    shards = counted(count, "shard")
    if store.exists(PLAN_NAME):
        return f"an unfinished conversion with {shards} so far: run the same `datafeed convert` again"
    if not count:
        return ""
    return (
        f"{shards} of a converted dataset without a whole {MANIFEST_NAME}: run `datafeed index --rebuild {store.url}` "
        "if all of them are there, or else the same `datafeed convert` again"
    )


def check_name(name: str) -> str:
    """Tell what is wrong with a name of an object; names come from untrusted files.

    Args:
        name: The name, as text; bytes that are no UTF-8 stand as surrogate escapes.

    Returns:
        What is wrong; empty where nothing is.
    """
    if not name or name in {".", ".."} or set(name) & {"/", "\\", "\0"}:
        return "it must be a plain name, without / or \\"
    try:
        nbytes = len(name.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return "it holds half a surrogate pair"
    return f"it has {nbytes} bytes, the limit is {_NAME_LIMIT}" if nbytes > _NAME_LIMIT else ""


def _check_names(manifest: Manifest, fields: Fields) -> None:
    names = [shard.name for shard in manifest.shards]
    for name in (manifest.index_name, *names):
        wrong = check_name(name)
        if wrong:
            fields.fail(f"the name {name!r:.300} is refused: {wrong}")
    if len(set(names) | {manifest.index_name, MANIFEST_NAME}) != len(names) + 2:
        fields.fail(f"names stand twice: {_twice([*names, manifest.index_name, MANIFEST_NAME])!r}")
    if manifest.codec == "zstd":
        for number, name in enumerate(names):
            if name != shard_name(number):
                fields.fail(f"expected {shard_name(number)!r} as shard {number}, found {name!r}")


def _twice(names: Sequence[str]) -> str:
    ordered = sorted(names)
    return next(name for name, after in itertools.pairwise(ordered) if name == after)


def _sealed(fields: dict[str, object]) -> bytes:
    return canonical({**fields, "crc32c": crc32c(canonical(fields))}) + b"\n"


def _opened(data: bytes) -> Fields:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise CorruptIndex(f"it is no JSON: {exc}", shard=MANIFEST_NAME) from exc
    fields = Fields(value, MANIFEST_NAME)
    if fields.value("format") != "datafeed":
        fields.fail(f"expected the format 'datafeed', found {fields.value('format')!r:.100}")
    version = fields.integer("version", least=1)
    if version > VERSION:
        reason = f"version {version} of the format is unknown, the latest known is {VERSION}: install a newer datafeed"
        raise UnsupportedVersion(reason, shard=MANIFEST_NAME)
    plain = {key: item for key, item in value.items() if key != "crc32c"}
    if _resealed(plain, fields) != data:
        fields.fail("its CRC32C does not match: run `datafeed index --rebuild`")
    return fields


def _resealed(plain: dict[str, object], fields: Fields) -> bytes:
    try:
        return _sealed(plain)
    except (ValueError, RecursionError) as exc:
        fields.fail(f"it is no canonical JSON: {exc}")

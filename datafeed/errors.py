"""Name every error that datafeed raises.

::

    DatafeedError
    ├── ConfigError (ValueError)               an option, or two options that exclude each other
    │   └── StateMismatch                      a loader state that belongs to another dataset, order or version
    ├── MissingExtra (ImportError)             an optional package is needed
    ├── OutputError (OSError)                  the destination
    │   ├── OutputFull                         no room left
    │   ├── OutputLocked                       another conversion is writing there
    │   └── OutputDiffers                      something else stands there
    ├── SourceError (ValueError)               the raw data set
    │   ├── SourceNotFound (FileNotFoundError)
    │   ├── EmptySource
    │   ├── SourceChanged                      it changed while it was read
    │   └── BadItem                            one file or row of it
    ├── SchemaError (ValueError)               a record or value does not fit the schema
    │   └── RecordTooLarge
    ├── DatasetNotFound (FileNotFoundError)
    ├── ShardMissing (FileNotFoundError)
    ├── RemoteError (OSError)                  what a server of objects answered
    │   ├── RemoteUnavailable (ConnectionError)  nothing usable, for longer than the deadline
    │   ├── AccessRefused (PermissionError)
    │   │   └── CredentialsExpired
    │   ├── BadReply                           a body or a range that was not asked for
    │   └── ObjectChanged                      an object was replaced while it was read
    ├── CorruptData (ValueError)               bytes that are not what was written
    │   ├── NotAShard
    │   ├── TruncatedShard
    │   ├── CorruptFrame
    │   ├── CorruptRecord
    │   ├── DecompressionLimit
    │   ├── CorruptIndex
    │   ├── IndexMismatch                      an index of other shards
    │   ├── StaleIndex                         shards written after their index
    │   └── UnsupportedVersion
    ├── WorkerLost (RuntimeError)              a conversion's worker died again and again on the same task
    ├── TransformError (RuntimeError)          a user's transform failed; its cause is the user's exception
    └── LoaderClosed (RuntimeError)

An error is also the builtin that fits, so `except FileNotFoundError` works without importing this module.
"""

from __future__ import annotations


class DatafeedError(Exception):
    """Stand at the root of every error of this package."""


class ConfigError(DatafeedError, ValueError):
    """Refuse an option or a combination of options."""


class StateMismatch(ConfigError):
    """Refuse a loader state that belongs to another dataset, order or version."""


class MissingExtra(DatafeedError, ImportError):
    """Name the extra whose packages are needed.

    Args:
        package: The package that failed to import.
        extra: The extra of this distribution that installs it.
        purpose: What it is needed for, as in "to read parquet".
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(package, extra, purpose)

    def __str__(self) -> str:
        package, extra, purpose = self.args
        return f"{package} is needed {purpose}: pip install 'datafeed-torch[{extra}]'"


class OutputError(DatafeedError, OSError):
    """Report a destination that cannot be written."""


class OutputFull(OutputError):
    """Report a destination without room."""


class OutputLocked(OutputError):
    """Report a destination that another conversion is writing."""


class OutputDiffers(OutputError):
    """Report a destination that holds something else."""


class SourceError(DatafeedError, ValueError):
    """Report a raw data set that cannot be read."""


class SourceNotFound(SourceError, FileNotFoundError):
    """Report a raw data set that does not exist."""


class EmptySource(SourceError):
    """Report a raw data set without a single sample."""


class SourceChanged(SourceError):
    """Report a raw data set that changed while it was read."""


class BadItem(SourceError):
    """Report one file or row that cannot become a sample.

    Args:
        where: File, and row or line where there is one (`"a/b.csv:17"`).
        reason: What is wrong with it.
        data: The item as it was found, for quarantine; None where it could not be read.
    """

    def __init__(self, where: str, reason: str, data: bytes | None = None) -> None:
        super().__init__(where, reason, data)
        self.where = where
        self.reason = reason
        self.data = data

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


class SchemaError(DatafeedError, ValueError):
    """Report a record or value that does not fit the schema.

    Args:
        reason: What was expected and what was found.
        row: Its row among those that were parsed or encoded together; -1 where none is to blame.
        feature: The feature's name; empty where none is to blame.
    """

    def __init__(self, reason: str, row: int = -1, feature: str = "") -> None:
        super().__init__(reason, row, feature)
        self.reason = reason
        self.row = row
        self.feature = feature

    def __str__(self) -> str:
        return self.reason if not self.feature else f"feature {self.feature!r}: {self.reason}"


class RecordTooLarge(SchemaError):
    """Report a record over the format's limit of 2**31 - 1 bytes."""


class DatasetNotFound(DatafeedError, FileNotFoundError):
    """Report a place without a committed dataset."""


class ShardMissing(DatafeedError, FileNotFoundError):
    """Report a shard that the manifest names and the store lacks."""


class RemoteError(DatafeedError, OSError):
    """Report what a server of objects answered, and with what next step."""


class RemoteUnavailable(RemoteError, ConnectionError):
    """Report a server that gave no usable answer until the deadline."""


class AccessRefused(RemoteError, PermissionError):
    """Report that a server does not let these credentials in."""


class CredentialsExpired(AccessRefused):
    """Report credentials that have expired, and that looking for newer ones did not help."""


class BadReply(RemoteError):
    """Report a reply that is short, long, of another range, or no object at all, such as a proxy's HTML page."""


class ObjectChanged(RemoteError):
    """Report an object that was replaced while it was read: its old and new bytes are never mixed."""


class CorruptData(DatafeedError, ValueError):
    """Report bytes that are not what was written.

    Args:
        reason: What was expected and what was found.
        shard: The shard's or file's name; empty until known.
        block: The block's number in its shard; -1 where none is to blame.
        record: The record's number in its block (in its file for plain TFRecords); -1 where none is to blame.
        offset: The byte, within the block's raw bytes for a record, within the file otherwise; -1 where none is.

    Attributes:
        dataset: The URL of the dataset, without its password; empty until known.
    """

    def __init__(self, reason: str, *, shard: str = "", block: int = -1, record: int = -1, offset: int = -1) -> None:
        super().__init__(reason)
        self.dataset = ""
        self.reason = reason
        self.shard = shard
        self.block = block
        self.record = record
        self.offset = offset

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (type(self), vars(self))

    def __str__(self) -> str:
        place = f"{self.dataset}/{self.shard}" if self.dataset and self.shard else self.dataset or self.shard
        shown = place if place.isprintable() else repr(place)
        parts = [shown] if shown else []
        named = (("block", self.block), ("record", self.record), ("byte", self.offset))
        parts += [f"{word} {number}" for word, number in named if number >= 0]
        return f"{', '.join(parts)}: {self.reason}" if parts else self.reason


def _restore(kind: type[CorruptData], fields: dict[str, object]) -> CorruptData:
    error = kind(str(fields["reason"]))
    vars(error).update(fields)
    return error


class NotAShard(CorruptData):
    """Report bytes that are no shard at all, such as a proxy's HTML page."""


class TruncatedShard(CorruptData):
    """Report a shard that ends too early."""


class CorruptFrame(CorruptData):
    """Report a zstd frame that is damaged or stands in another's place."""


class CorruptRecord(CorruptData):
    """Report a TFRecord whose length or checksum is wrong."""


class DecompressionLimit(CorruptData):
    """Report a frame that would grow past the size that its index names."""


class CorruptIndex(CorruptData):
    """Report a manifest or block index that is damaged."""


class IndexMismatch(CorruptData):
    """Report an index that belongs to other shards."""


class StaleIndex(CorruptData):
    """Report shards that were written after their index."""


class UnsupportedVersion(CorruptData):
    """Report a format version that this release does not know."""


class WorkerLost(DatafeedError, RuntimeError):
    """Report a task of a conversion whose worker dies again and again."""


class TransformError(DatafeedError, RuntimeError):
    """Report a transform that raised, with the sample's place; the cause is the transform's own exception."""


class LoaderClosed(DatafeedError, RuntimeError):
    """Report an iterator that was used after its loader was closed."""

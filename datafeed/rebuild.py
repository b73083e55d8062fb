"""Rebuild a dataset's index from its shards."""

from __future__ import annotations

import hashlib
import re

from datafeed.commit import commit
from datafeed.errors import CorruptData, CorruptFrame, DatasetNotFound, IndexMismatch, ShardMissing
from datafeed.footer import Footer, Place, read_footer
from datafeed.frames import check_header, checksum
from datafeed.manifest import Manifest
from datafeed.scan import scan_blocks, scan_rest
from datafeed.shard import ShardInfo, shard_name
from datafeed.storage import Store

_SHARD = re.compile(r"shard-(\d{6,})\.tfrecord\.zst")


def shard_numbers(store: Store) -> list[int]:
    """Return the numbers of the shards that a store holds, in order."""
    found = [_SHARD.fullmatch(name) for name in store.names()]
    return sorted(int(match[1]) for match in found if match)


def rebuild_index(store: Store) -> Manifest:
    """Write `blocks.idx` and `dataset.json` anew, byte for byte as the conversion wrote them.

    Every stored byte is read and hashed, nothing is decompressed; `verify` does that.

    Args:
        store: Where the shards are.

    Returns:
        The manifest.

    Raises:
        DatasetNotFound: There are no shards.
        ShardMissing: One is missing in the middle or at the end.
        IndexMismatch: One belongs to another dataset, or stands in another's place.
        CorruptData: One is damaged.
        OutputError: The store cannot be written.
    """
    numbers = shard_numbers(store)
    if not numbers:
        raise DatasetNotFound(f"no shards at {store.url} to rebuild an index from")
    for number, found in enumerate(numbers):
        if found != number:
            raise ShardMissing(f"{shard_name(number)!r} is missing at {store.url}, where {shard_name(found)!r} stands")
    footers = [read_footer(store, shard_name(number)) for number in numbers]
    for number, footer in enumerate(footers):
        wrong = misplaced(footer, number, footers[0], footers[number - 1] if number else None)
        if wrong:
            raise IndexMismatch(wrong, shard=shard_name(number))
    if not footers[-1].last:
        reason = (
            f"{shard_name(len(footers))!r} is missing at {store.url}: {shard_name(len(footers) - 1)!r} is not the last"
        )
        raise ShardMissing(f"{reason}; run the same `datafeed convert` again to finish it")
    shards = [_hashed(store, number, footer) for number, footer in enumerate(footers)]
    runs = [footer.run.provenance for footer in footers if footer.last and footer.run.number]
    return commit(store, footers[0].header, "zstd", shards, [footer.blocks for footer in footers], runs)


def misplaced(footer: Footer, number: int, first: Footer, before: Footer | None) -> str:
    """Tell why a shard does not belong where it stands.

    Args:
        footer: Its footer.
        number: The number in its name.
        first: The footer of the dataset's first shard.
        before: The footer of the shard before it; None for the first.

    Returns:
        What is wrong; empty where nothing is.
    """
    if footer.header != first.header:
        expected, found = first.header.dataset_id, footer.header.dataset_id
        return f"it belongs to dataset {found}, the first shard to {expected}: keep the shards of one conversion only"
    if footer.number != number:
        return f"it says that it is {shard_name(footer.number)!r}: a shard was renamed or copied"
    if before is not None:
        return _unlike(footer, before)
    return "" if number or not footer.run.number else f"it is of run {footer.run.number}, a dataset begins with run 0"


def _unlike(footer: Footer, before: Footer) -> str:
    """Tell why a shard does not follow another."""
    if footer.run.number == before.run.number and not before.last:
        if footer.begin == before.end:
            return ""
        return f"it begins at {footer.begin}, the shard before it ends at {before.end}: they are of different runs"
    if before.last and footer.run.number == before.run.number + 1 and footer.begin == Place(0, 0):
        return ""
    ends = "ends" if before.last else "does not end"
    return (
        f"it is of run {footer.run.number}, the shard before it {ends} run {before.run.number}: delete "
        f"{shard_name(footer.number)!r} if it is left over, else bring back what is between them"
    )


def _hashed(store: Store, number: int, footer: Footer) -> ShardInfo:
    name = shard_name(number)
    blocks = footer.blocks
    sha256 = hashlib.sha256()
    facts = zip(blocks.raw.tolist(), blocks.checksum.tolist(), strict=True)
    for block, (frame, (raw, expected)) in enumerate(
        zip(scan_blocks(store, name, blocks.stored, sha256.update), facts, strict=True)
    ):
        try:
            check_header(frame, raw)
            if checksum(frame) != expected:
                raise CorruptFrame(f"expected a frame of checksum {expected:#010x}, found {checksum(frame):#010x}")
        except CorruptData as exc:
            exc.shard, exc.block = name, block
            raise
    if sha256.digest() != footer.digest:
        reason = f"its blocks have the SHA-256 {sha256.hexdigest()}, its footer names {footer.digest.hex()}"
        raise CorruptFrame(f"{reason}: convert again, or restore the shard", shard=name)
    nbytes = scan_rest(store, name, int(blocks.stored.sum(dtype="int64")), sha256.update)
    totals = [int(column.sum(dtype="int64")) for column in (blocks.raw, blocks.records)]
    return ShardInfo(name, nbytes, totals[0], totals[1], len(blocks), sha256.hexdigest(), footer.skipped)

"""Put the data in place that the measurements read."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from datafeed.bench.case import Case
from datafeed.bench.feeding import MANY_SHARDS
from datafeed.bench.workloads import COUNTS, Name, make
from datafeed.converters.convert import ConvertOptions, convert
from datafeed.dataset import Dataset

TOY_COUNTS: dict[Name, int] = {"images": 40, "tokens": 2_000, "tabular": 1_000}
_SPARE = 1.1  # shards end at block boundaries, so that fewer may come out than asked for


def prepare(case: Case, say: Callable[[str], None]) -> Mapping[str, int]:
    """Make the workloads and convert them, where an earlier call did not.

    Args:
        case: Where, and whether at toy size.
        say: Told what is being done.

    Returns:
        The checksum of each workload, by name.
    """
    checksums: dict[str, int] = {}
    for name, count in (TOY_COUNTS if case.toy else COUNTS).items():
        say(f"{name}: {count:,} samples")
        workload = make(name, case.raw(name), count)
        convert(workload.source, case.converted(name), ConvertOptions(workers=1))
        checksums[name] = workload.checksum
    say(f"tokens in {MANY_SHARDS} shards")
    shard_size = int(Dataset(case.converted("tokens")).manifest.nbytes / (_SPARE * MANY_SHARDS))
    block_size = "8KiB" if case.toy else "256KiB"
    options = ConvertOptions(workers=1, shard_size=shard_size, block_size=block_size)
    convert(case.raw("tokens") / "tokens.parquet", case.converted("many"), options)
    return checksums

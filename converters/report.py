"""Say what a conversion did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RanOn = Literal["inline", "ray", "nothing"]


@dataclass(frozen=True, slots=True)
class ConvertReport:
    """Describe a finished conversion.

    Args:
        dest: The dataset.
        dataset_id: Its id.
        records: Its records.
        shards: Its shards.
        raw_bytes: What its blocks hold when decompressed.
        stored_bytes: What its shards take.
        skipped: Bad items that were passed over.
        reasons: The first few of them, as "file: reason".
        level: The zstd level.
        seconds: How long this run took.
        ran_on: Where tasks were encoded; "nothing" where the dataset was complete before.
        workers: How many processes encoded.
        resumed: Shards that an earlier run had finished.
        notes: What a person should know about the source.
    """

    dest: str
    dataset_id: str
    records: int
    shards: int
    raw_bytes: int
    stored_bytes: int
    skipped: int
    reasons: tuple[str, ...]
    level: int
    seconds: float
    ran_on: RanOn
    workers: int
    resumed: int
    notes: tuple[str, ...] = ()

    @property
    def ratio(self) -> float:
        """Raw bytes per stored byte."""
        return self.raw_bytes / self.stored_bytes if self.stored_bytes else 1.0

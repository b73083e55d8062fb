"""Say what a conversion did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

RanOn = Literal["inline", "ray", "nothing"]
SHOWN_REASONS = 5


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
        new_records: Records that this run wrote.
        parts: Where the data is split, each part's own report, by name.
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
    new_records: int = 0
    parts: Mapping[str, ConvertReport] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """Raw bytes per stored byte."""
        return self.raw_bytes / self.stored_bytes if self.stored_bytes else 1.0


def joined(dest: str, parts: Mapping[str, ConvertReport]) -> ConvertReport:
    """Return what the conversions of all parts of a split did together.

    Args:
        dest: The folder of their datasets.
        parts: Their reports by name, one or more.
    """
    all_of = list(parts.values())
    ran_on = {report.ran_on for report in all_of}
    return ConvertReport(
        dest=dest,
        dataset_id="",
        records=sum(report.records for report in all_of),
        shards=sum(report.shards for report in all_of),
        raw_bytes=sum(report.raw_bytes for report in all_of),
        stored_bytes=sum(report.stored_bytes for report in all_of),
        skipped=sum(report.skipped for report in all_of),
        reasons=tuple(reason for report in all_of for reason in report.reasons)[:SHOWN_REASONS],
        level=max(report.level for report in all_of),
        seconds=sum(report.seconds for report in all_of),
        ran_on=next(kind for kind in ("ray", "inline", "nothing") if kind in ran_on),
        workers=max(report.workers for report in all_of),
        resumed=sum(report.resumed for report in all_of),
        notes=tuple(dict.fromkeys(note for report in all_of for note in report.notes)),
        new_records=sum(report.new_records for report in all_of),
        parts=dict(parts),
    )

"""Write plain TFRecord files with the index that DALI's reader asks for.

The index has a line per record: its offset in the file and its size there, framing included, as DALI's `tfrecord2idx`
writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from datafeed._native import Block, Encoder
from datafeed.converters.block_runs import BlockRun
from datafeed.converters.export_form import Exported, Facts, Output, Shard
from datafeed.framing import FRAMING_NBYTES
from datafeed.schema import Schema


@dataclass(frozen=True)
class TFRecordForm:
    """Write the records as they are, or anew with the features that are wanted.

    Args:
        exported: What is exported.
    """

    exported: Exported

    @property
    def schema(self) -> Schema:
        """The features that are wanted."""
        return self.exported.schema

    def versions(self) -> Mapping[str, str]:
        """Return nothing: the bytes are ours."""
        return {}

    def write(self, out: Output, shard: Shard, runs: Iterator[BlockRun]) -> Facts:
        """Write a file of records, then its index."""
        lines: list[str] = []
        offset = 0
        with out.file(f"{shard.stem}.tfrecord") as sink:
            for run in runs:
                for block in self._blocks(run):
                    sink.write(block.raw)
                    for row in range(len(block)):
                        nbytes = len(block.record(row)) + FRAMING_NBYTES
                        lines.append(f"{offset} {nbytes}\n")
                        offset += nbytes
        with out.file(f"{shard.stem}.idx") as sink:
            sink.write("".join(lines).encode())
        return ()

    def _blocks(self, run: BlockRun) -> Iterator[Block]:
        if not self.exported.chosen:
            yield from run.blocks
            return
        encoder = Encoder(self.schema.features)
        columns = [run.columns[feature.name] for feature in self.schema]
        row = 0
        while row < run.rows:
            raw, count = encoder.encode(columns, row, run.rows, 2**31)
            yield Block(raw, count)
            row += count

    def finish(self, out: Output, facts: Iterator[Facts]) -> None:
        """Write nothing: each file says what it holds."""

"""Write the golden datasets: `PYTHONPATH=. python tests/make_golden.py` renews tests/golden, read for ever."""

from __future__ import annotations

import sys
from pathlib import Path

import golden_data

from datafeed._native import Encoder
from datafeed.commit import commit
from datafeed.footer import Place
from datafeed.foreign import index_foreign
from datafeed.frames import compress, zstd_version
from datafeed.header import make_header
from datafeed.manifest import Manifest
from datafeed.shard import ShardWriter, shard_name
from datafeed.storage import open_store

GOLDEN = Path(__file__).parent / "golden"
_BLOCK_SIZE = 2000
_PER_SHARD = 24


def write_forms(folder: Path) -> Manifest:
    """Write a dataset of version 1 with every form of feature, on two shards of several blocks."""
    store = open_store(folder)
    provenance = {"source": "tests/golden_data.py", "kind": "golden", "writer": "version 1", "zstd": zstd_version()}
    header = make_header(golden_data.SCHEMA, block_size=_BLOCK_SIZE, level=3, provenance=provenance, extent_size=1500)
    features = list(golden_data.SCHEMA)
    columns = [golden_data.to_column(feature, [row[feature.name] for row in golden_data.ROWS]) for feature in features]
    encoder = Encoder(features)
    pairs = []
    for number, start in enumerate(range(0, len(golden_data.ROWS), _PER_SHARD)):
        stop = min(start + _PER_SHARD, len(golden_data.ROWS))
        with store.writer(shard_name(number)) as sink:
            writer = ShardWriter(sink, header, number)
            row = start
            while row < stop:
                raw, count = encoder.encode(columns, row, stop, _BLOCK_SIZE)
                writer.add(compress(raw, header.level), len(raw), count)
                row += count
            last = stop == len(golden_data.ROWS)
            info = writer.finish(begin=Place(number, 0), end=Place(number + 1, 0), skipped=number, last=last)
        pairs.append((info, writer.columns()))
    return commit(store, header, "zstd", [info for info, _ in pairs], [blocks for _, blocks in pairs])


def write_plain(folder: Path) -> Manifest:
    """Write two plain TFRecord files, and the index over them."""
    store = open_store(folder)
    features = list(golden_data.SCHEMA)
    rows = golden_data.ROWS[:6]
    columns = [golden_data.to_column(feature, [row[feature.name] for row in rows]) for feature in features]
    encoder = Encoder(features)
    for name, start, stop in (("a.tfrecord", 0, 4), ("b.tfrecord", 4, 6)):
        with store.writer(name) as sink:
            sink.write(encoder.encode(columns, start, stop, 2**30)[0])
    return index_foreign(store, schema=golden_data.SCHEMA, block_size=_BLOCK_SIZE)


if __name__ == "__main__":
    write_forms(GOLDEN / "forms-v1")
    write_plain(GOLDEN / "plain-v1")
    sys.stdout.write(f"written under {GOLDEN}\n")

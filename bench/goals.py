"""Say which figures are compared, and what they should reach."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from datafeed.bench.case import Sample

Judge = Literal["ratio", "ratio at most", "at least", "at most"]
Rounds = Mapping[str, Sequence[Sample]]


@dataclass(frozen=True, slots=True)
class Goal:
    """Compare one figure of ours with a peer's or with a number.

    Args:
        what: What is measured, for people.
        unit: The unit of the figure.
        ours: The measurement.
        peers: Others of the same samples; the best of them is compared with.
        judge: Whether the goal is the least or the most ratio to that peer, or the least or the most of the figure
            itself. The best peer is the one of the largest figure; where the most counts, of the smallest.
        goal: The goal; None where the row only informs.
        fact: The fact of `Sample` that is the figure; empty for its value.
    """

    what: str
    unit: str
    ours: str
    peers: tuple[str, ...] = ()
    judge: Judge = "ratio"
    goal: float | None = None
    fact: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """Hold one comparison. Figures are medians over the rounds; the ratio is the median of each round's own.

    Args:
        what: What is measured.
        unit: The unit of the figures.
        ours: Our figure.
        peer: The best peer's name; empty where there is none.
        theirs: Its figure.
        ratio: Ours over theirs.
        judge: What the goal is about.
        goal: The goal; None where the row only informs.
        holds: Whether it is reached; None without a goal.
        samples: How many samples we delivered, over all rounds.
        peer_samples: How many the peer did.
    """

    what: str
    unit: str
    ours: float
    peer: str
    theirs: float | None
    ratio: float | None
    judge: Judge
    goal: float | None
    holds: bool | None
    samples: int
    peer_samples: int


_SHUFFLED = ("tabular/datasets shuffled", "tabular/datasets shuffle buffer")
_TOKEN_WRITERS = ("write tokens/LitData zstd", "write tokens/LitData zstd:1", "write tokens/ArrayRecord zstd")
_TABLE_WRITERS = ("write tabular/ArrayRecord zstd of Examples",)
_PACKED = ("write tabular/ArrayRecord zstd of packed rows",)
_IMAGE_WRITERS = ("write images/ArrayRecord zstd", "write images/TensorFlow", "write images/webdataset")
_IMAGE_FRAMES = ("images/zstd", "images/zstd into one buffer")
GOALS: tuple[Goal, ...] = (
    Goal("tokens beside bare zstd", "samples/s", "tokens/Loader", ("tokens/zstd",), goal=0.88),
    Goal("tokens beside zstd into one buffer", "samples/s", "tokens/Loader", ("tokens/zstd into one buffer",)),
    Goal("tokens beside zstd that reads files", "samples/s", "tokens/Loader", ("tokens/zstd and read",)),
    Goal("tokens beside DataLoader over npy", "samples/s", "tokens/Loader", ("tokens/DataLoader",)),
    Goal("tokens from a disk tier", "samples/s", "tokens/Loader from disk", ("tokens/Loader",), goal=0.90),
    Goal("tokens from the memory tier", "samples/s", "tokens/Loader from memory", (), "at least", 3_000_000),
    Goal("table from a disk tier", "samples/s", "tabular/Loader from disk", ("tabular/Loader",), goal=0.90),
    Goal("table from the memory tier", "samples/s", "tabular/Loader from memory", (), "at least", 4_000_000),
    Goal(
        "table beside datasets in order", "samples/s", "tabular/Loader", ("tabular/datasets in order",), goal=3
    ),
    Goal("table beside datasets shuffled", "samples/s", "tabular/Loader", _SHUFFLED),
    Goal("table beside bare zstd", "samples/s", "tabular/Loader", ("tabular/zstd",)),
    Goal("images as bytes", "samples/s", "images/Loader", _IMAGE_FRAMES, "at least", 300_000),
    Goal("images as bytes beside DataLoader", "samples/s", "images/Loader", ("images/DataLoader",)),
    Goal("images decoded, beside bare decoding", "samples/s", "images/Loader decoded", ("images/decode",), goal=0.95),
    Goal(
        "images decoded, beside DataLoader", "samples/s", "images/Loader decoded", ("images/DataLoader decoded",)
    ),
    Goal("first batch of 100 shards", "s", "first batch", judge="at most", goal=0.2),
    Goal("memory beside the window", "bytes", "memory", judge="at most", goal=1e9),
    Goal("convert tokens", "records/s", "convert tokens", judge="at least", goal=140_000),
    Goal("convert images", "records/s", "convert images", judge="at least", goal=12_000),
    Goal("convert table", "records/s", "convert tabular", judge="at least", goal=300_000),
    *(
        Goal(f"memory of a worker, {name}", "bytes", f"convert {name}", judge="at most", goal=600e6, fact="worker_pss")
        for name in ("tokens", "images", "tabular")
    ),
    Goal("write tokens", "records/s", "convert tokens from npy", _TOKEN_WRITERS, goal=2),
    Goal("write table", "records/s", "convert tabular", _TABLE_WRITERS, goal=3),
    Goal("write table beside packed rows", "records/s", "convert tabular", _PACKED),
    Goal("write table beside parquet", "records/s", "convert tabular", ("write tabular/parquet zstd",)),
    Goal("write images beside zstd", "records/s", "convert images", _IMAGE_WRITERS[:1], goal=1),
    Goal("write images", "records/s", "convert images", _IMAGE_WRITERS, goal=1),
    Goal("write images, rate", "records/s", "convert images", judge="at least", goal=15_000),
    *(
        Goal(f"size of {name}", "bytes", ours, peers, "ratio at most", 1.03, "stored_bytes")
        for name, ours, peers in (
            ("tokens", "convert tokens from npy", _TOKEN_WRITERS),
            ("table", "convert tabular", _TABLE_WRITERS),
            ("table beside packed rows", "convert tabular", _PACKED),
            ("images", "convert images", _IMAGE_WRITERS[:1]),
        )
    ),
    *(
        Goal(f"two workers, {name}", "records/s", f"convert {name}", (f"convert {name}, one worker",), goal=goal)
        for name, goal in (("tokens from npy", 1.8), ("images", 1.8), ("tabular", None))
    ),
    *(
        Goal(f"{count} workers, forecast, {name}", "records/s", f"convert {name}", fact=f"forecast_{count}")
        for count in (8, 64)
        for name in ("tokens from npy", "images", "tabular")
    ),
)  # fmt: skip


def compare(goal: Goal, rounds: Rounds) -> Row:
    """Make the row of a goal.

    Args:
        goal: What to compare.
        rounds: The samples of each measurement, round by round.

    Returns:
        The row.
    """
    figures = _figures(rounds[goal.ours], goal.fact)
    ours = statistics.median(figures)
    best = _best(goal, rounds)
    theirs = ratio = None
    if best:
        peer_figures = _figures(rounds[best], goal.fact)
        theirs = statistics.median(peer_figures)
        ratio = statistics.median(mine / peer for mine, peer in zip(figures, peer_figures, strict=True))
    return Row(
        what=goal.what,
        unit=goal.unit,
        ours=ours,
        peer=best,
        theirs=theirs,
        ratio=ratio,
        judge=goal.judge,
        goal=goal.goal,
        holds=_holds(goal, ours, ratio),
        samples=sum(sample.samples for sample in rounds[goal.ours]),
        peer_samples=sum(sample.samples for sample in rounds.get(best, ())),
    )


def _best(goal: Goal, rounds: Rounds) -> str:
    choose = min if goal.judge == "ratio at most" else max
    return choose(goal.peers, key=lambda peer: statistics.median(_figures(rounds[peer], goal.fact)), default="")


def _figures(samples: Sequence[Sample], fact: str = "") -> list[float]:
    return [sample.facts[fact] if fact else sample.value for sample in samples]


def _holds(goal: Goal, ours: float, ratio: float | None) -> bool | None:
    if goal.goal is None:
        return None
    reached = ratio if goal.judge.startswith("ratio") else ours
    assert reached is not None
    return reached <= goal.goal if goal.judge.endswith("at most") else reached >= goal.goal

"""Write down what a training script saw, and check that runs together saw every sample once."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

Position = tuple[int, int]


class Journal:
    """Keep a line for every batch of one rank of one run.

    Args:
        folder: Where it is kept.
        run: The run's name.
        rank: The rank.
    """

    def __init__(self, folder: str, run: str, rank: int) -> None:
        self._file = Path(folder, f"{run}-{rank}.jsonl").open("a")  # noqa: SIM115  (open as long as the process is)

    def note(self, loader: object, batch: dict[str, object]) -> None:
        """Write a batch down, with where the loader stands after it."""
        state = loader.state_dict()  # type: ignore[attr-defined]
        ids = batch["id"].tolist()  # type: ignore[attr-defined]
        mask = batch["_mask"].tolist() if "_mask" in batch else [True] * len(ids)  # type: ignore[attr-defined]
        ids = [number for number, real in zip(ids, mask, strict=True) if real]
        line = {"after": [state["epoch"], state["position"]], "size": len(mask), "ids": ids}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def lines(folder: Path, run: str) -> dict[int, list[dict[str, object]]]:
    """Return the lines of a run, by rank."""
    paths = sorted(folder.glob(f"{run}-*.jsonl"))
    return {int(path.stem.rsplit("-", 1)[1]): [*map(json.loads, path.read_text().splitlines())] for path in paths}


def check_runs(folder: Path, runs: Sequence[tuple[str, Position | None]], epochs: Sequence[Sequence[int]]) -> None:
    """Check that runs, each up to a position of its own, together saw every sample of every epoch once.

    Also that all ranks of a run got batches of one number and size, and stood at the same positions after them.

    Args:
        folder: Where the journals are.
        runs: Their names, each with the position from which the next one went on; None for the last.
        epochs: The ids of each epoch.
    """
    found: list[Counter[int]] = [Counter() for _ in epochs]
    for run, stop in runs:
        ranks = lines(folder, run)
        kept = {rank: [line for line in all_ if _counts(line, stop)] for rank, all_ in ranks.items()}
        shapes = [[(line["after"], line["size"]) for line in part] for part in kept.values()]
        assert shapes, f"run {run} left no journal"
        assert shapes == [shapes[0]] * len(shapes)
        for part in kept.values():
            for line in part:
                epoch, position = line["after"]  # type: ignore[misc]
                found[epoch - (not position)].update(line["ids"])  # type: ignore[arg-type]
    assert found == [Counter(ids) for ids in epochs]


def _counts(line: dict[str, object], stop: Position | None) -> bool:
    return stop is None or tuple(line["after"]) <= stop  # type: ignore[arg-type]

"""Run loaders in tests: batches as plain values, states through JSON, children with a deadline."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch

from datafeed import Loader, Ragged

ROOT = Path(__file__).parent.parent
Batch = dict[str, object]


def ids(batches: Iterable[Batch]) -> list[list[int]]:
    """Return the ids of each batch."""
    return [batch["id"].tolist() for batch in batches]  # type: ignore[attr-defined]


def flat(batches: Iterable[Batch]) -> list[int]:
    """Return the ids of all samples in the order in which they came."""
    return [number for batch in ids(batches) for number in batch]


def plain(value: object) -> object:
    """Copy a batch, or a value of one, to plain Python values with their dtypes."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, Ragged):
        return [plain(value.values), value.offsets.tolist()]
    if isinstance(value, torch.Tensor):
        return [str(value.dtype), tuple(value.shape), value.contiguous().numpy().tobytes()]
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.shape, value.tobytes()]
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def saved(loader: Loader) -> dict[str, object]:
    """Return a loader's state as it comes back from a file."""
    state: dict[str, object] = json.loads(json.dumps(loader.state_dict()))
    return state


def take(loader: Loader, count: int) -> list[Batch]:
    """Return the first batches of a new iterator, which is then dropped."""
    return list(itertools.islice(loader, count))


def child(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a child process that has a minute, warnings as errors."""
    return subprocess.run(  # noqa: PLW1510  (the caller looks at the exit status)
        command(code, *arguments), capture_output=True, text=True, timeout=60, cwd=ROOT
    )


def command(code: str, *arguments: str) -> Sequence[str]:
    """Return the command line of such a child."""
    return [sys.executable, "-W", "error", "-c", code, *arguments]

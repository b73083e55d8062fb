"""Hold what the measurements of storage and cache are told, and what they tell."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Setting:
    """Tell a measurement where its data are, and how much to do.

    Args:
        data: A folder; what is made there is kept for the next run.
        rounds: How often rates are measured.
        toy: Whether to run over tiny data, to see that all of it runs.
    """

    data: Path
    rounds: int = 3
    toy: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """Hold one figure.

    Args:
        name: What was measured.
        value: The figure.
        unit: Its unit; "%" for shares.
        judge: How `goal` is meant; empty where there is none.
        goal: The figure that is wanted.
        facts: What else the same run showed.
    """

    name: str
    value: float
    unit: str
    judge: Literal["at least", "at most", ""] = ""
    goal: float = 0.0
    facts: Mapping[str, object] = field(default_factory=dict)

    @property
    def holds(self) -> bool | None:
        """Whether the goal is reached; None without one."""
        if not self.judge:
            return None
        return self.value >= self.goal if self.judge == "at least" else self.value <= self.goal


def in_process(module: str, arguments: Sequence[object], environ: Mapping[str, str] | None = None) -> dict[str, float]:
    """Run a module in a fresh process, and return the JSON of its last line.

    Args:
        module: Its name.
        arguments: What it is given, as JSON each.
        environ: Its environment; None for this process's.

    Raises:
        RuntimeError: It failed; with the end of what it said.
    """
    return result_of(started(module, arguments, environ))


def started(
    module: str, arguments: Sequence[object], environ: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start what `in_process` runs."""
    command = [sys.executable, "-m", module, *map(json.dumps, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, env=None if environ is None else dict(environ)
    )


def result_of(child: subprocess.Popen[str]) -> dict[str, float]:
    """Wait for what was started; return and raise as `in_process` does."""
    try:
        out, err = child.communicate(timeout=_TIMEOUT_S)
    finally:
        child.kill()  # which does nothing to one that has ended
    if child.returncode:
        raise RuntimeError(f"{child.args!r:.300} failed with exit code {child.returncode}: {err[-2000:]}")
    return json.loads(out.splitlines()[-1])  # type: ignore[no-any-return]  # what the module printed

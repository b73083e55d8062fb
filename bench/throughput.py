"""Run contenders in turn, several rounds, and keep every figure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from datafeed.bench.case import Case, Sample
from datafeed.bench.goals import GOALS, Goal, Rounds, Row, compare
from datafeed.bench.machine import Machine, describe_machine
from datafeed.bench.measures import measure_apart
from datafeed.bench.prepare import prepare


@dataclass(frozen=True, slots=True)
class Report:
    """Hold a whole run.

    Args:
        begun: When, in UTC.
        machine: On what.
        case: The parameters.
        rounds: Every sample, by measurement.
        rows: What they come to.
    """

    begun: str
    machine: Machine
    case: Case
    rounds: Rounds
    rows: Sequence[Row]


def run_throughput(case: Case, rounds: int, only: Sequence[str], say: Callable[[str], None]) -> Report:
    """Measure.

    In each round every contender runs once, in a process of its own; each next round runs them in the opposite order,
    so that what drifts on the machine meets both sides alike.

    Args:
        case: The parameters.
        rounds: How many rounds, at least 1.
        only: Rows whose name holds one of these words; empty for all.
        say: Told what is being done.

    Returns:
        The report.

    Raises:
        ValueError: Contenders delivered different samples; or no row has such a name.
    """
    goals = [goal for goal in GOALS if not only or any(word in goal.what for word in only)]
    if not goals:
        raise ValueError(f"no row is named by {only}; there are {[goal.what for goal in GOALS]}")
    begun = datetime.now(UTC).isoformat(timespec="seconds")
    machine = describe_machine()
    checksums = prepare(case, say)
    names = _names(goals)
    taken: dict[str, list[Sample]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            sample = measure_apart(name, case)
            taken[name].append(sample)
            say(f"round {number + 1} of {rounds}: {name} {sample.value:,.6g}")
    check_same(taken, checksums)
    return Report(begun, machine, case, taken, [compare(goal, taken) for goal in goals])


def _names(goals: Sequence[Goal]) -> list[str]:
    return list(dict.fromkeys(name for goal in goals for name in (goal.ours, *goal.peers)))


def check_same(taken: Rounds, checksums: Mapping[str, int]) -> None:
    """Check that all contenders delivered the same samples, each once.

    Args:
        taken: Every sample.
        checksums: The digests of the raw workloads, by name; a digest without one is compared among contenders.

    Raises:
        ValueError: Two digests differ.
    """
    known = dict(checksums)
    for name, samples in taken.items():
        for sample in samples:
            if sample.checksum is not None and known.setdefault(sample.digest, sample.checksum) != sample.checksum:
                expected = known[sample.digest]
                raise ValueError(f"{name}: expected {sample.digest} of digest {expected}, found {sample.checksum}")


def write_report(report: Report, path: Path) -> None:
    """Write a report as JSON."""
    case = {**asdict(report.case), "data": ""}  # where data lay is nobody's concern
    path.write_text(json.dumps({**asdict(report), "case": case}, indent=1) + "\n")

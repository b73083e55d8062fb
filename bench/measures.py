"""List all that can be measured, and measure one of it in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from functools import partial

from datafeed.bench.case import Case, Measure, Sample
from datafeed.bench.converting import CONVERSIONS
from datafeed.bench.feeding import FEEDS, STARTS
from datafeed.bench.limits import LIMITS
from datafeed.bench.peers import PEERS
from datafeed.bench.rates import measure_rate
from datafeed.bench.writers import WRITERS

MEASURES: dict[str, Measure] = {
    **{name: partial(measure_rate, contender) for name, contender in {**LIMITS, **PEERS, **FEEDS}.items()},
    **STARTS,
    **CONVERSIONS,
    **WRITERS,
}
_TIMEOUT_S = 600


def measure_apart(name: str, case: Case) -> Sample:
    """Measure in a fresh process: nothing that another contender loaded, started or cached in memory is in its way.

    Args:
        name: One of `MEASURES`.
        case: What it is told.

    Returns:
        What it measured.

    Raises:
        RuntimeError: It failed; with the end of what it said.
    """
    command = [sys.executable, "-m", __name__, name, json.dumps(asdict(case))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} failed with exit code {done.returncode}: {done.stderr[-2000:]}")
    return Sample(**json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    print(json.dumps(asdict(MEASURES[sys.argv[1]](Case(**json.loads(sys.argv[2]))))))

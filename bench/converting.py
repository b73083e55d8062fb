"""Convert the workloads on a local Ray."""

from __future__ import annotations

import shutil
import time
from contextlib import nullcontext
from functools import partial

from datafeed.bench.case import Case, Measure, Sample
from datafeed.bench.memory import PeakMemory, ray_workers
from datafeed.bench.workloads import Name, Workload, find
from datafeed.converters.convert import ConvertOptions, ConvertReport, convert
from datafeed.converters.pool import ray_cluster


def measure_convert(case: Case, name: Name) -> Sample:
    """Convert a workload twice on one Ray: the first pays for what its new workers import, the second is the figure.

    Args:
        case: How many workers, and where the data are.
        name: The workload.

    Returns:
        Records per second of the second conversion. Among the facts are how long Ray took to start, the rate of the
        first, and the most memory that one worker had in either.

    Raises:
        ValueError: It did not run on Ray, or lost records.
    """
    workload = find(case.raw(name))
    begun = time.perf_counter()
    with ray_cluster(None, case.workers) if case.workers > 1 else nullcontext():
        started = time.perf_counter() - begun
        with PeakMemory(ray_workers) as peak:
            first = _convert(case, workload)
            second = _convert(case, workload)
    facts = {
        "ray_start_seconds": started,
        "first_rate": first.records / first.seconds,
        "worker_pss": max(peak.pss.values(), default=0),
        "worker_rss": max(peak.rss.values(), default=0),
        "stored_bytes": second.stored_bytes,
        "raw_bytes": second.raw_bytes,
        "level": second.level,
    }
    return Sample(second.records / second.seconds, second.records, second.seconds, facts=facts)


def _convert(case: Case, workload: Workload) -> ConvertReport:
    dest = case.scratch(f"converted-{workload.name}")
    shutil.rmtree(dest, ignore_errors=True)
    report = convert(workload.source, str(dest), ConvertOptions(workers=case.workers))
    shutil.rmtree(dest)
    if report.records != workload.count or (report.ran_on != "ray" and not case.toy):
        found = f"{report.records} {report.ran_on}"
        raise ValueError(f"expected {workload.count} records converted on Ray, found {found}")
    return report


CONVERSIONS: dict[str, Measure] = {
    f"convert {name}": partial(measure_convert, name=name) for name in ("tokens", "images", "tabular")
}

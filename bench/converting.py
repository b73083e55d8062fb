"""Convert the workloads on a local Ray."""

from __future__ import annotations

import shutil
import time
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from datafeed.bench.case import Case, Measure, Sample
from datafeed.bench.memory import PeakMemory, ray_workers
from datafeed.bench.workloads import Name, Workload, find
from datafeed.converters.convert import ConvertOptions, ConvertReport, convert
from datafeed.converters.pool import ray_cluster

_FORECAST = (8, 64)


def measure_convert(case: Case, name: Name, file: str = "", workers: int = 0) -> Sample:
    """Convert a workload twice on one Ray: the first pays for what its new workers import, the second is the figure.

    Args:
        case: How many workers, and where the data are.
        name: The workload.
        file: Which form of it, where it lies there in several; empty for the usual one.
        workers: Other than the case's; 0 for those.

    Returns:
        Records per second of the second conversion. Among the facts are how long Ray took to start, the rate of the
        first, the most memory that one worker had in it, and the rates that more workers would give: as many times
        one worker's, up to where this process, which joins and writes what they encode, has no time left.

    Raises:
        ValueError: It did not run on Ray, or lost records.
    """
    workload = find(case.raw(name))
    source = case.raw(name) / file if file else workload.source
    case = replace(case, workers=workers or case.workers)
    begun = time.perf_counter()
    with ray_cluster(None, case.workers) if case.workers > 1 else nullcontext():
        started = time.perf_counter() - begun
        with PeakMemory(ray_workers) as peak:
            first = _convert(case, workload, source)
            driver, encoders = _cpu_seconds()
            second = _convert(case, workload, source)
            driver, encoders = (
                after - before for after, before in zip(_cpu_seconds(), (driver, encoders), strict=True)
            )
    facts = {
        "ray_start_seconds": started,
        "first_rate": first.records / first.seconds,
        "worker_pss": max(peak.pss.values(), default=0),
        "worker_rss": max(peak.rss.values(), default=0),
        "driver_cpu_seconds": driver,
        "workers_cpu_seconds": encoders,
        "stored_bytes": second.stored_bytes,
        "raw_bytes": second.raw_bytes,
        "level": second.level,
    }
    for count in _FORECAST:
        facts[f"forecast_{count}"] = second.records / max((encoders or driver) / count, driver)
    return Sample(second.records / second.seconds, second.records, second.seconds, facts=facts)


def _cpu_seconds() -> tuple[float, float]:
    """Return the processor time that this process and Ray's workers have taken."""
    workers = (process.cpu_times() for process in ray_workers())
    return time.process_time(), sum(times.user + times.system for times in workers)


def _convert(case: Case, workload: Workload, source: Path) -> ConvertReport:
    dest = case.scratch(f"converted-{workload.name}")
    shutil.rmtree(dest, ignore_errors=True)
    report = convert(source, str(dest), ConvertOptions(workers=case.workers))
    shutil.rmtree(dest)
    on_ray = report.ran_on == "ray"
    if report.records != workload.count or (on_ray != (case.workers > 1) and not case.toy):
        raise ValueError(f"expected {workload.count} records by {case.workers}, found {report.records} {report.ran_on}")
    return report


_CONVERSIONS = {
    "tokens": partial(measure_convert, name="tokens"),
    "tokens from npy": partial(measure_convert, name="tokens", file="tokens.npy"),
    "images": partial(measure_convert, name="images"),
    "tabular": partial(measure_convert, name="tabular"),
}
CONVERSIONS: dict[str, Measure] = {
    **{f"convert {name}": measure for name, measure in _CONVERSIONS.items()},
    **{f"convert {name}, one worker": partial(measure, workers=1) for name, measure in _CONVERSIONS.items()},
}

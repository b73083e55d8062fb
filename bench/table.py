"""Draw a report as a table."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from datafeed.bench.goals import Row
from datafeed.bench.throughput import Report
from datafeed.sizes import format_size


def print_report(report: Report, console: Console) -> None:
    """Print what was measured, and on what.

    Args:
        report: The report.
        console: Where to.
    """
    machine = report.machine
    table = Table(title=f"{machine['cpu']}, {machine['cores']} cores; {report.case.workers} workers")
    for heading in ("what", "datafeed", "peer", "", "ratio", "goal", "holds"):
        table.add_column(heading, justify="left" if heading in {"what", "", "holds"} else "right")
    for row in report.rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        holds = {True: "yes", False: "no", None: ""}[row.holds]
        theirs = "" if row.theirs is None else _figure(row.theirs, row.unit)
        table.add_row(row.what, _figure(row.ours, row.unit), theirs, row.peer, ratio, _goal(row), holds)
    console.print(table)


def _goal(row: Row) -> str:
    if row.goal is None:
        return ""
    if row.judge.startswith("ratio"):
        return f"{row.judge.removeprefix('ratio')} {row.goal:g}x".strip()
    return f"{row.judge} {_figure(row.goal, row.unit)}"


def _figure(value: float, unit: str) -> str:
    if unit == "bytes":
        return format_size(value) if value >= 0 else f"-{format_size(-value)}"
    return f"{value:.3f} {unit}" if unit == "s" else f"{value:,.0f} {unit}"

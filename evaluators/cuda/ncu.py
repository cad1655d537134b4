"""``ncu`` over a program: hardware counters of each of its kernels."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from evaluators.cuda.inspection import REPORT, Report, ToolUnavailable

DURATION = "gpu__time_duration.sum"
DRAM, SM = (f"{unit}__throughput.avg.pct_of_peak_sustained_elapsed" for unit in ("dram", "sm"))
TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
METRICS = (
    *(DURATION, "dram__bytes_read.sum", "dram__bytes_write.sum", DRAM, SM, TENSOR, OCCUPANCY),
    *("launch__registers_per_thread", "launch__occupancy_limit_registers", "launch__occupancy_limit_shared_mem"),
    *("smsp__inst_executed_op_local_ld.sum", "smsp__inst_executed_op_local_st.sum"),
    *("lts__t_sector_hit_rate.pct", "l1tex__t_sector_hit_rate.pct"),
)
"""Spills are local loads and stores."""
CALLS = 3
COMMAND = (
    *("ncu", "--clock-control", "none", "--cache-control", "all", "--csv", "--print-units", "base"),
    *("--metrics", ",".join(METRICS), "--log-file", REPORT, "--target-processes", "application-only"),
)
"""Caches are flushed before each kernel, as rounds are cold; clocks are left alone, as in rounds."""
MOST_KERNELS = 16
_WORDS_CAP = 240
_MOST = 1e18
"""No counter of a few calls comes near: whatever is made of smaller numbers is finite."""
_MARK = '"ID"'


@dataclass(frozen=True)
class KernelCounters:
    """One kernel's counters, the median of its launches."""

    name: str
    """As ncu prints it, with its parameters. The candidate's: data."""
    launches: int
    values: Mapping[str, tuple[float, str]]
    """By metric: value and unit."""

    def value(self, metric: str) -> float | None:
        """A metric's value; ``None`` where ncu did not give it."""
        found = self.values.get(metric)
        return None if found is None else found[0]


def parse(report: Report) -> list[KernelCounters]:
    """Read ncu's CSV, the longest kernel first.

    Raises:
        ToolUnavailable: there is none, and the tool's own words say why, or it is damaged.
    """
    start = report.text.find(_MARK)
    if start < 0:
        rows = [*report.text.splitlines(), *report.log.splitlines()]
        words = next((row for row in rows if "ERROR" in row), next((row for row in rows if row.strip()), "no words"))
        raise ToolUnavailable(f"ncu gave no counters: {words.strip()[:_WORDS_CAP]} {report.last_words}".rstrip())
    by_kernel: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    units: dict[str, str] = {}
    for row in _rows(report.text[start:]):
        value = _number(row.get("Metric Value"))
        name, metric = row.get("Kernel Name"), row.get("Metric Name")
        if value is not None and name and metric in METRICS:
            by_kernel[name][metric].append(value)
            units[metric] = (row.get("Metric Unit") or "1").strip() or "1"
    found = [
        KernelCounters(
            name, max(map(len, metrics.values())), {m: (median(values), units[m]) for m, values in metrics.items()}
        )
        for name, metrics in by_kernel.items()
    ]
    return sorted(found, key=lambda kernel: -(kernel.value(DURATION) or 0.0) * kernel.launches)[:MOST_KERNELS]


def _rows(text: str) -> list[dict[str, str | None]]:
    try:
        return list(csv.DictReader(io.StringIO(text)))
    except csv.Error as error:
        raise ToolUnavailable(f"ncu's counters cannot be read: {error}") from None


def _number(text: str | None) -> float | None:
    try:
        value = float((text or "").replace(",", ""))
    except ValueError:
        return None
    return value if abs(value) < _MOST else None

"""A profile as a table: the time of an update by name of operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nmt.train.planning.dry_run import DryRun

WARM_UP = 3
"""Updates before those that are profiled, in which memory grows to the size that batches need."""

OTHER = "other (Python)"


def profile_page(dry_run: DryRun, updates: int) -> str:
    """Run some updates and return a table of their operations, the longest first; the seconds add up to the time of an
    update.

    GFLOP/s count two operations for each multiply-add of a matrix product; the rest of an operation's arithmetic is not
    counted.
    """
    timing = dry_run.measure(updates, warm_up=WARM_UP)
    profile, whole = timing.profile, timing.seconds
    rows = [
        (name, one.calls / updates, one.seconds, 2e-9 * one.multiply_adds / max(one.seconds, 1e-9))
        for name, one in profile.operations.items()
    ]
    rows.append((OTHER, 0.0, whole - profile.seconds, 0.0))
    rows.sort(key=lambda row: -row[2])
    rate = 2e-9 * sum(one.multiply_adds for one in profile.operations.values()) / whole
    rows.append(("an update", 1.0, whole, rate))
    width = max(len(row[0]) for row in rows)
    threads = dry_run.num_threads
    lines = [
        f"{updates} updates of {timing.tgt_tokens / updates:,.0f} target tokens, after {WARM_UP} of warm-up, "
        f"{threads} thread{'s' if threads > 1 else ''}: "
        + (f"{timing.src_tokens / whole:,.0f} source and " if timing.src_tokens else "")
        + f"{timing.tgt_tokens / whole:,.0f} target tokens/s",
        "",
        f"{'operation':{width}}  {'calls':>7}  {'seconds':>9}  {'share':>6}  {'GFLOP/s':>7}",
    ]
    for name, calls, seconds, speed in rows:
        shown = f"{speed:7.1f}" if speed else ""
        count = f"{calls:7.1f}" if calls else " " * 7
        line = f"{name:{width}}  {count}  {seconds / updates:9.6f}  {seconds / whole:6.1%}  {shown}"
        lines.append(line.rstrip())
    return "\n".join(lines)

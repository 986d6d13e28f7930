"""What the studies of the engine share: options, notes, the head of a table."""

import argparse
import sys

from _machine import describe
from peak import measure_peak

from nmt.rnn.cores import default_threads


def note(text: str) -> None:
    """A line about progress, outside the table."""
    print(text, file=sys.stderr, flush=True)


def options(description: str | None) -> argparse.ArgumentParser:
    """The options that every study has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--quick", action="store_true", help="fewer sizes and turns")
    return parser


def print_machine(threads: int) -> float:
    """Head of the tables: CPU, threads, date, versions and the peak, GFLOP/s."""
    speed = measure_peak(threads)
    print(", ".join(f"{name} {value}" for name, value in describe(threads).items()))
    print(f"peak {speed:.0f} GFLOP/s in float32 on {threads} threads", flush=True)
    return speed

"""Check a corpus before training: report what cannot work, and what may be wrong."""

from nmt.doctor.examine import PAIRS_AT_START, examine
from nmt.doctor.texts import Example, Finding, Findings

__all__ = ["PAIRS_AT_START", "Example", "Finding", "Findings", "examine"]

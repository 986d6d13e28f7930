"""Counts the lines that two files have in common, line by line.

    python data_scripts/exact_match.py HYPOTHESES REFERENCES

BLEU hardly penalises a wrong number. If each input has one correct answer, the share of correct lines
is a better measure.
"""

import argparse
from pathlib import Path

from text_files import fail, read_lines


def main() -> None:
    """Prints the share of equal lines and the first differences; fails below --at-least."""
    parser = argparse.ArgumentParser(description="Share of lines that equal the reference.")
    parser.add_argument("hypotheses", type=Path, help="file of translations, one a line")
    parser.add_argument("references", type=Path, help="file of right answers, one a line")
    parser.add_argument("--at-least", type=float, default=0.0, help="fail below this percentage (default: %(default)s)")
    parser.add_argument("--show", type=int, default=3, help="differences to print (default: %(default)s)")
    options = parser.parse_args()
    hypotheses, references = (read_lines(path) for path in (options.hypotheses, options.references))
    if len(hypotheses) != len(references) or not references:
        fail(
            f"{options.hypotheses}: must have as many lines as {options.references}, "
            f"at least one, got {len(hypotheses)} and {len(references)}; translate the whole file"
        )
    wrong = [(ours, right) for ours, right in zip(hypotheses, references, strict=True) if ours != right]
    right_count = len(references) - len(wrong)
    share = 100.0 * right_count / len(references)
    for ours, right in wrong[: options.show]:
        print(f"  got  {ours}\n  for  {right}")
    print(f"exact match: {share:.1f}% ({right_count} of {len(references)})")
    if share < options.at_least:
        fail(f"exact match must be at least {options.at_least:g}%, got {share:.1f}%; train longer")


if __name__ == "__main__":
    main()

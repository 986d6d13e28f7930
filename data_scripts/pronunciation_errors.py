"""Counts wrong words and wrong sounds of pronunciations, line by line.

    python data_scripts/pronunciation_errors.py HYPOTHESES ANSWERS

A line of ANSWERS has one pronunciation or several separated by vertical bars, with spaces between sounds. A word is
correct if it equals one of them; WER is the share of words that do not. PER counts the insertions, deletions and
substitutions of sounds (Levenshtein 1966) to the nearest answer, and divides their sum by the sounds of these answers.
"""

import argparse
from pathlib import Path

from text_files import fail, read_lines


def main() -> None:
    """Prints both rates and the first wrong words; fails above --at-most."""
    parser = argparse.ArgumentParser(description="Word and phoneme error rates of pronunciations.")
    parser.add_argument("hypotheses", type=Path, help="file of pronunciations, one a line")
    parser.add_argument("answers", type=Path, help="file of right ones, several between vertical bars")
    parser.add_argument("--at-most", type=float, default=100.0, help="fail above this WER (default: %(default)s)")
    parser.add_argument("--show", type=int, default=3, help="wrong words to print (default: %(default)s)")
    options = parser.parse_args()
    hypotheses, answers = (read_lines(path) for path in (options.hypotheses, options.answers))
    if len(hypotheses) != len(answers) or not answers:
        fail(
            f"{options.hypotheses}: must have as many lines as {options.answers}, "
            f"at least one, got {len(hypotheses)} and {len(answers)}; pronounce the whole file"
        )
    wrong = edits = sounds = 0
    for ours, line in zip(hypotheses, answers, strict=True):
        distance, length = nearest(ours.split(), [answer.split() for answer in line.split("|")])
        edits, sounds = edits + distance, sounds + length
        if distance:
            wrong += 1
            if wrong <= options.show:
                print(f"  got  {ours}\n  for  {line}")
    word_errors = 100.0 * wrong / len(answers)
    print(f"WER {word_errors:.2f}% ({wrong} of {len(answers)} words)")
    print(f"PER {100.0 * edits / max(1, sounds):.2f}% ({edits} of {sounds} sounds)")
    if word_errors > options.at_most:
        fail(f"WER must be at most {options.at_most:g}%, got {word_errors:.2f}%; train longer")


def nearest(ours: list[str], answers: list[list[str]]) -> tuple[int, int]:
    """Returns the least edit distance to one of the answers, and that answer's length, the longest of equal ones."""
    return min(((edit_distance(ours, answer), len(answer)) for answer in answers), key=lambda d: (d[0], -d[1]))


def edit_distance(ours: list[str], answer: list[str]) -> int:
    """Returns how many insertions, deletions and substitutions turn one sequence into the other."""
    row = list(range(len(answer) + 1))
    for count, sound in enumerate(ours, start=1):
        diagonal, row[0] = row[0], count
        for column, right in enumerate(answer, start=1):
            substituted = diagonal + (sound != right)
            diagonal, row[column] = row[column], min(substituted, row[column] + 1, row[column - 1] + 1)
    return row[-1]


if __name__ == "__main__":
    main()

"""Checks the sides of a corpus against each other and writes them as FOLDER/PART.LANGUAGE."""

from pathlib import Path

from text_files import count_lines, fail, write_aside

# Part of the corpus -> language -> plain text.
Corpus = dict[str, dict[str, bytes]]


def write_parallel_corpus(corpus: Corpus, folder: Path) -> None:
    """Writes every part in every language, or nothing where sides have unequal lengths."""
    sizes = {part: _line_count(part, sides) for part, sides in corpus.items()}
    for part, sides in corpus.items():
        for language, text in sides.items():
            write_aside(folder / f"{part}.{language}", text)
    languages = ", ".join(next(iter(corpus.values())))
    counts = ", ".join(f"{size} {part}" for part, size in sizes.items())
    print(f"{folder}: {counts} lines each in {languages}")


def _line_count(part: str, sides: dict[str, bytes]) -> int:
    counts = {language: count_lines(text, f"{part}.{language}") for language, text in sides.items()}
    if len(set(counts.values())) != 1 or 0 in counts.values():
        found = ", ".join(f"{language} {count}" for language, count in counts.items())
        fail(f"{part}: all languages must have the same number of lines, got {found}; fetch the files again")
    return next(iter(counts.values()))

"""Learning from corrections: a stream of sentences, each translated, then confirmed with its reference, then learnt.

    python benchmarks/learning.py runs/captions data/travel/stream data/multi30k/dev -n 500

translates the first N sentences of STREAM one after the other, each before its reference is known, and scores those
translations (online adaptation, Ortiz-Martinez et al. 2010): without learning, with the translation memory alone (the
target of the most similar source of what was confirmed, if it is similar enough, or else the base model's
translation), and with learning: by updates, by reading similar pairs, and by both. Then the next N sentences, which are
not confirmed, and the general text DEV, before and after; and once more after the pairs were consolidated, which is a
fine-tuning over all of them: "fine-tuned at the end" has done nothing else. "Known": of every tenth pair, those that
are translated as confirmed at once.
Texts are compared as they are: lower-case them if the model does. --house replaces words of the stream's
references by those of a house style.

Also: the time from confirming to learnt, wall clock and of the process on its processor, while another thread
translates (--busy); and a memory of --grown pairs, whether time and memory stay what they were.
Checks first that what was learnt is there again after loading, bit for bit.
"""

import argparse
import os
import re
import resource
import tempfile
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from _machine import describe

from nmt import LearningTranslator, Translator, evaluate
from nmt.learning import projects
from nmt.learning.trainer import Recipe
from nmt.system.lines import read_lines

HOUSE_STYLE = {
    **{"man": "gentleman", "men": "gentlemen", "woman": "lady", "women": "ladies", "boy": "lad", "girl": "lass"},
    **{"people": "persons", "child": "youngster", "children": "youngsters", "dog": "hound", "street": "road"},
    **{"wearing": "dressed in", "jacket": "coat", "bike": "cycle", "car": "automobile", "sitting": "seated"},
    **{"mountain": "hill", "field": "meadow", "building": "house"},
}


def in_house_style(text: str) -> str:
    """A reference as the house writes it."""
    return re.sub(rf"\b({'|'.join(HOUSE_STYLE)})\b", lambda found: HOUSE_STYLE[found[1]], text)


def read(prefix: str, langs: tuple[str, str], count: int) -> tuple[list[str], list[str]]:
    """The first `count` pairs of two files that have no empty side."""
    rows = zip(*(read_lines(f"{prefix}.{lang}") for lang in langs), strict=True)
    pairs = [(src, tgt) for src, tgt in rows if src.strip() and tgt.strip()][:count]
    return [src for src, _ in pairs], [tgt for _, tgt in pairs]


def shown(found: list[str], references: list[str]) -> str:
    """BLEU and chrF as cells of a table."""
    scores = evaluate(found, references, metrics=("bleu", "chrf"))
    return f"{scores['bleu'].score:.2f} | {scores['chrf'].score:.1f}"


def from_memory(sources: list[str], references: list[str], base: list[str], least: float, most: int) -> list[str]:
    """What a translation memory alone answers on the stream, which it remembers the first `most` sentences of."""
    from rapidfuzz import fuzz, process

    found = []
    for place, source in enumerate(sources):
        best = process.extractOne(source, sources[: min(place, most)], scorer=fuzz.ratio, score_cutoff=100 * least)
        found.append(base[place] if best is None else references[best[2]])
    return found


def check(one: LearningTranslator, model: str, memory: Path) -> None:
    """That a restart gives the same bits; `one` is closed."""
    bits = {name: np.asarray(array).tobytes() for name, array in one.translator().model.params.items()}
    one.close()
    with LearningTranslator(Translator.load(model, threads=1), memory) as again:
        for name, array in again.translator().model.params.items():
            assert np.asarray(array).tobytes() == bits[name], name


def beside(one: LearningTranslator, texts: list[str], stop: threading.Event) -> threading.Thread:
    """A thread that translates until it is stopped."""

    def translate() -> None:
        while not stop.is_set():
            one.translator().translate(texts)

    thread = threading.Thread(target=translate)
    thread.start()
    return thread


def stream(
    arguments: argparse.Namespace,
    texts: tuple[list[str], list[str]],
    dev: tuple[list[str], list[str]],
    how: str,
    recipe: Recipe,
) -> list[str]:
    """Rows of the table: learning, fine-tuning alone, and both."""
    count, (sources, references) = arguments.count, texts
    with tempfile.TemporaryDirectory() as place:
        memory = Path(place) / "memory"
        base = Translator.load(arguments.model, threads=1)
        one = LearningTranslator(base, memory, recipe=recipe, idle=None)
        base_found = base.translate(sources[:count], beam_size=arguments.beam)
        stop, found, walls, cpus, known = threading.Event(), [], [], [], []
        busy = beside(one, sources[:8], stop) if arguments.busy else None
        for source, reference in zip(sources[:count], references[:count], strict=True):
            found.append(one.translate(source, beam_size=arguments.beam))
            began, of_thread = time.perf_counter(), time.thread_time()
            one.learn(source, reference)
            walls.append(1e3 * (time.perf_counter() - began))
            cpus.append(1e3 * (time.thread_time() - of_thread))
            if len(walls) % 10 == 1:
                again = one.translate(source, beam_size=arguments.beam)
                known.append(again.lower().split() == reference.lower().split())
        stop.set()
        if busy is not None:
            busy.join()
        one.wait()
        times = [f"{np.percentile(of, p):.0f}" for of in (walls, cpus) for p in (50, 95)]

        def row(name: str, stream: list[str], taken: str, of_thread: str) -> str:
            later = one.translate(sources[count:], beam_size=arguments.beam)
            general = one.translate(dev[0], beam_size=arguments.beam)
            checks, learnt = one.progress().checks, one.progress().learnt
            rise = checks[0].rise if checks else float("nan")
            cells = [shown(stream, references[:count]), shown(later, references[count:]), shown(general, dev[1])]
            cells += [f"{rise:+.3f}", f"{learnt}", f"{sum(known)} of {len(known)}", taken, of_thread]
            return f"| {name} | {' | '.join(cells)} |"

        rows = [row(how, found, " / ".join(times[:2]), " / ".join(times[2:]))]
        began, of_thread = time.perf_counter(), time.thread_time()
        if one.consolidate():
            taken = [
                f"{end - start:.0f} s" for start, end in ((began, time.perf_counter()), (of_thread, time.thread_time()))
            ]
            rows.append(row(f"{how}, then consolidated", found, *taken))
            if not recipe.reads:
                rows.append(row("fine-tuned at the end", base_found, *taken))
        check(one, arguments.model, memory)
    return rows


def grown(arguments: argparse.Namespace, texts: tuple[list[str], list[str]]) -> None:
    """Print time and memory with few and with many pairs, all of them learnt."""
    base = Translator.load(arguments.model, threads=1)
    pairs = list(zip(*texts, strict=True))
    with tempfile.TemporaryDirectory() as place, LearningTranslator(base, Path(place) / "memory") as one:
        print("\n| pairs | learnt in ms: p50 / p95 | of the thread | matches in ms | resident MB | memory file MB |")
        print("|---|---|---|---|---|---|")
        walls, cpus, step = [], [], max(1, arguments.grown // 5)
        for number in range(arguments.grown):
            source, target = pairs[number % len(pairs)]
            began, of_thread = time.perf_counter(), time.thread_time()
            one.learn(f"{source} {number}", target)
            walls.append(1e3 * (time.perf_counter() - began))
            cpus.append(1e3 * (time.thread_time() - of_thread))
            if (number + 1) % step == 0:
                one.wait()
                began = time.perf_counter()
                one.matches(source)
                cells = [f"{np.percentile(of, 50):.0f} / {np.percentile(of, 95):.0f}" for of in (walls, cpus)]
                cells += [f"{1e3 * (time.perf_counter() - began):.1f}", f"{resident():.0f}"]
                size = sum(path.stat().st_size for path in Path(place).iterdir()) / 1e6
                print(f"| {number + 1:,} | " + " | ".join(cells) + f" | {size:.1f} |", flush=True)
                walls, cpus = [], []
        began = time.perf_counter()
        one.consolidate()
        print(f"\nconsolidated in {time.perf_counter() - began:.0f} s, {resident():.0f} MB", flush=True)


def resident() -> float:
    """Megabytes of this process in memory now."""
    pages = Path("/proc/self/statm")
    if pages.is_file():
        return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def recipe_of(arguments: argparse.Namespace) -> Recipe:
    """The recipe of the options; what is not given is the default."""
    given = {name: getattr(arguments, name) for name in asdict(Recipe())}
    return Recipe(**{name: value for name, value in given.items() if value is not None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("stream", help="prefix of the two files of the stream")
    parser.add_argument("dev", help="prefix of the general text")
    parser.add_argument("-n", "--count", type=int, default=500)
    ways = ["updates", "reading", "both"]
    parser.add_argument("--ways", nargs="+", choices=ways, default=ways)
    parser.add_argument("--similar", type=float, default=0.7, help="similarity from which the memory alone answers")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--busy", action="store_true", help="translate in another thread meanwhile")
    parser.add_argument("--unguarded", action="store_true", help="never slow or stop learning")
    parser.add_argument("--house", action="store_true", help="words of a house style in the references of the stream")
    parser.add_argument("--grown", type=int, default=0, metavar="PAIRS")
    for name, value in asdict(Recipe()).items():
        parser.add_argument(f"--{name}", type=type(value))
    arguments = parser.parse_args()
    if arguments.unguarded:
        projects.SLOWS = projects.STOPS = float("inf")
    base = Translator.load(arguments.model, threads=1)
    langs = base.config.data.src.lang, base.config.data.tgt.lang
    texts, dev = read(arguments.stream, langs, 2 * arguments.count), read(arguments.dev, langs, 500)
    if arguments.house:
        texts = texts[0], [in_house_style(text) for text in texts[1]]
    count = len(texts[0]) // 2
    arguments.count = count
    print(describe(1), f"\n\n{recipe_of(arguments)}, {count} sentences of {arguments.stream}\n")
    print(
        "| | stream BLEU | chrF | next BLEU | chrF | general BLEU | chrF | rise of loss | learnt | known | "
        "ms: p50 / p95 | of the thread |"
    )
    print(f"|{12 * '---|'}")
    whole = base.translate(texts[0], beam_size=arguments.beam)
    general = shown(base.translate(dev[0], beam_size=arguments.beam), dev[1])
    first, later = shown(whole[:count], texts[1][:count]), shown(whole[count:], texts[1][count:])
    print(f"| no learning | {first} | {later} | {general} | | | | | |", flush=True)
    known = from_memory(texts[0], texts[1], whole, arguments.similar, count)
    first, later = shown(known[:count], texts[1][:count]), shown(known[count:], texts[1][count:])
    print(f"| translation memory | {first} | {later} | {general} | | | | | |", flush=True)
    given = recipe_of(arguments)
    ways = {"both": given, "updates": replace(given, reads=0), "reading": replace(given, updates=0)}
    for how in arguments.ways:
        print(*stream(arguments, texts, dev, how, ways[how]), sep="\n", flush=True)
    if arguments.grown:
        grown(arguments, (texts[0], texts[1]))


if __name__ == "__main__":
    main()

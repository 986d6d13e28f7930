"""Translate a file of pieces with CTranslate2, in its own interpreter; `-` reads and answers line by line.

Run by translate.py: python _ctranslate2.py MODEL SOURCE TARGET BEAM BATCH THREADS
"""

import sys

import ctranslate2


def main() -> None:
    """Translate."""
    model, source, target, beam, batch, threads = sys.argv[1:]
    # One translator with all threads, or one thread each for as many batches at a time.
    parallel = int(threads) if int(batch) > 1 else 1
    translator = ctranslate2.Translator(
        model, device="cpu", compute_type="int8", inter_threads=parallel, intra_threads=max(1, int(threads) // parallel)
    )

    def run(lines: list[str]) -> list[str]:
        rows = [line.split() for line in lines]
        options = {"beam_size": int(beam), "max_batch_size": int(batch), "batch_type": "examples"}
        found = translator.translate_batch(rows, max_decoding_length=100, length_penalty=0, **options)
        return [" ".join(one.hypotheses[0]) for one in found]

    if source == "-":
        for line in sys.stdin:
            print(run([line])[0], flush=True)
        return
    with open(source, encoding="utf-8") as lines, open(target, "w", encoding="utf-8") as out:
        out.writelines(f"{line}\n" for line in run(list(lines)))


if __name__ == "__main__":
    main()

"""Subwords, corpora and batches. Only here are arrays not yet time-major.

src, tgt = load_sides(config.data)
corpus = load_parallel(config.data.train, src, tgt)
for batch in TrainBatches(corpus, 4096, seed=config.seed).epoch(0): ...

See `corpora.prepare`, `corpora.corpus` and `batching.batches`.
"""

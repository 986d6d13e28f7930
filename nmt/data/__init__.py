"""Subwords, corpora and batches. Only here are arrays not yet time-major.

src, tgt = load_sides(config.data)
corpus = load_parallel(config.data.train, src, tgt)
for batch in TrainBatches(corpus, 4096, seed=config.seed).epoch(0): ...
"""

from nmt.data.batching.batches import Batch, TrainBatches, make_batch
from nmt.data.corpora.corpus import ParallelCorpus, Side, clean_line, load_parallel
from nmt.data.corpora.prepare import load_sides, training_text
from nmt.data.corpora.readers import TokenRows
from nmt.data.tokens.subwords import Subwords, train_subwords
from nmt.special_tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.system.lines import read_lines, text_file

__all__ = [
    "BOS_ID",
    "EOS_ID",
    "PAD_ID",
    "UNK_ID",
    "Batch",
    "ParallelCorpus",
    "Side",
    "Subwords",
    "TokenRows",
    "TrainBatches",
    "clean_line",
    "load_parallel",
    "load_sides",
    "make_batch",
    "read_lines",
    "text_file",
    "train_subwords",
    "training_text",
]

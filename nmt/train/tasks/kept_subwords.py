"""Subwords stored with the index of a large text, so that the next run on it need not read the text for them."""

from __future__ import annotations

import json
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import sentencepiece

from nmt.data.batching.indexing import index_folder, text_state
from nmt.data.corpora.prepare import filter_key
from nmt.data.corpora.sources import sources_of
from nmt.errors import CheckpointError
from nmt.storage.model_folder import load_subwords, save_subwords
from nmt.system.files import explain, new_folder, remedy

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.tokens.subwords import Subwords

_PREFIX = "subwords-"


class KeptSubwords:
    """The subwords that a text gives with the settings of a run, in a folder whose name is a digest of both. `config`:
    the settings; their task and text must be ones that are indexed; `folder`: the folder of the indexes."""

    def __init__(self, config: Config, folder: Path) -> None:
        data = config.data
        sides = data.src, data.tgt
        langs = [side.lang for side in sides]
        content = [
            sentencepiece.__version__,
            [[source.columns, source.tag, text_state(source, langs)] for source in sources_of(data.train)],
            [source.tag for value in data.held_out for source in sources_of(value)],
            [one.to_dict() for one in (*sides, data.subwords)],
            filter_key(data, sides),
            [data.src_factors, data.factor_separator],
        ]
        digest = blake2b(json.dumps(content).encode(), digest_size=12).hexdigest()
        self.path, self._joint = folder / f"{_PREFIX}{digest}", data.subwords.joint

    def find(self) -> tuple[Subwords, Subwords] | None:
        """Return the subwords of both sides; None if none are stored. Raises CheckpointError if they are damaged."""
        return load_subwords(self.path, joint=self._joint) if self.path.is_dir() else None

    def keep(self, src: Subwords, tgt: Subwords) -> None:
        """Store the subwords. Raises CheckpointError if that fails."""
        try:
            with new_folder(self.path) as aside:
                save_subwords(aside, src, tgt, joint=self._joint)
        except OSError as error:
            if not self.path.is_dir():  # another process may already have stored the same ones
                raise CheckpointError(f"{self.path}: must be written, got {explain(error)}; {remedy(error)}") from error


def kept_subwords(config: Config) -> KeptSubwords | None:
    """Return where a run's subwords are stored; None without an index, or if they come from a file."""
    settings = config.data.subwords
    if settings.model_file or settings.src_model_file or settings.tgt_model_file:
        return None
    folder = index_folder(config) if config.task == "translation" else None
    return None if folder is None else KeptSubwords(config, folder)

"""The models of all projects, the work in the background, and the rule by which learning slows, goes back and stops."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, cast

import numpy as np

from nmt.decode.rules.options import Shortlist
from nmt.inference.nearest import Recall, finder, projection_of
from nmt.inference.translator import Translator
from nmt.learning.memory import Memory, Pair, Use
from nmt.learning.trainer import Arrays, Trainer, loss_of
from nmt.model.translation import TranslationModel
from nmt.overriding import override
from nmt.rnn.arrays.weights import quantise
from nmt.storage.model_folder import PARAMS_PREFIX, SCALES_SUFFIX, quantised_tensors
from nmt.storage.saved_model import LoadedModel, SavedModel

EVERY = 10
"""Pairs learnt between two scores of the held-out text."""
HELD_OUT = 100
"""Pairs of the validation text that are scored."""
SLOWS, STOPS = 0.02, 0.1
"""The rises of the held-out loss, in nats a token, from which learning is slowed, and from which it goes back."""
_LEAST_RATE = 1 / 16


@dataclass(frozen=True)
class Decision:
    """The learning rate's factor from now on, what is done, and whether the model goes back within SLOWS."""

    rate: float
    action: str
    goes_back: bool = False


def decide(rise: float, rate: float) -> Decision:
    """Return what follows from a rise of the held-out loss, at the present rate."""
    if rate == 0:
        return Decision(0.0, "stopped")
    if not rise <= STOPS:  # also if it is no number
        return Decision(
            0.0, f"stopped: {rise:.2f} above the base model; went back to where it was within {SLOWS}", True
        )
    if rise > SLOWS:
        slower = max(_LEAST_RATE, rate / 2)
        return Decision(slower, f"slowed to 1/{round(1 / slower)}: {rise:.2f} above the base model")
    if rate < 1 and rise <= SLOWS / 2:
        return Decision(min(1.0, 2 * rate), "faster again")
    return Decision(rate, "")


_logger = logging.getLogger("nmt")

_INFINITE = 1e6
"""The rise of a loss that is no number, as SQLite keeps it."""
_SNAPSHOT_EVERY = 20
"""Pairs learnt between two snapshots: after a crash fewer are learnt again."""
_CONSOLIDATED_FROM = 20
"""New pairs from which a project is consolidated in idle time."""
_SHARES = (1.0, 0.75, 0.5, 0.25)
"""Shares of the change by consolidation that are tried until other texts are well (Wortsman et al. 2022)."""


@dataclass
class Project:
    """The parameters of a project after its last learnt pair, and its translator. Both are replaced, never changed."""

    own: Arrays
    last: int
    shortlist: Shortlist | None
    recall: Recall
    translator: Translator
    rate: float = 1.0
    unchecked: int = 0
    unsaved: int = 0
    unconsolidated: int = 0
    is_whole: bool = True
    """False while a pair is being learnt: after an error or an interruption it is made again from the memory."""


class Projects:
    """Each project's parameters and translator, as the memory has them. Any thread that changes something holds `turn`;
    `translator` needs none. One more thread scores and saves them.

    Args:
        base, floating: The base model's translator, and the model in floating point.
        idle: Seconds without a change after which a project is consolidated; None: never.
        changed: Called with a project's name and new translator after each change, by the thread that made it.
    """

    def __init__(
        self,
        base: Translator,
        floating: TranslationModel,
        memory: Memory,
        trainer: Trainer,
        idle: float | None,
        changed: Callable[[str, Translator], None] | None,
    ) -> None:
        self.base, self.memory, self.trainer, self._changed = base, memory, trainer, changed
        self._pause, self._changes, self._changed_at = idle, 0, 0.0
        self.turn = threading.RLock()
        self._projects: dict[str, Project] = {}
        self._held_out = trainer.held_out(memory.general(Use.HELD_OUT))
        self._base_loss = loss_of(floating, self._held_out) if self._held_out else 0.0
        recipe = trainer.recipe

        similar = finder("learning", least=recipe.alike, most=recipe.reads)
        self._nothing = Recall(similar, base.src_subwords.decode, projection_of(floating))
        self._work, self._idle = threading.Event(), threading.Event()
        self._idle.set()
        self.is_closed = False
        self._background = threading.Thread(target=self._run_background, name="nmt-learn", daemon=True)
        self._background.start()
        for name in memory.projects():
            self.get(name)

    def translator(self, name: str) -> Translator:
        """Return the present translator of a project."""
        found = self._projects.get(name)
        return self.base if found is None else found.translator

    def rate(self, name: str) -> float:
        """Return the factor of a project's learning rate, 0 if it has stopped."""
        found = self._projects.get(name)
        return 1.0 if found is None else found.rate

    def close(self) -> None:
        """Stop the background work and close the memory."""
        self.is_closed = True
        self._work.set()
        self._background.join()
        with self.turn:
            self.memory.close()

    def wait(self) -> None:
        """Wait until the background work is done."""
        self._idle.wait()

    def learn(self, pair: Pair) -> None:
        """Learn a pair that is in the memory, and publish the model."""
        known = self.get(pair.project)
        if known.last == pair.number:  # learnt with others that were lacking
            return
        known.is_whole = False
        self._learn(known, pair)
        known.recall = self._with_pairs(known.recall, [pair])
        self._publish(pair.project, known)
        known.is_whole = True
        self._look_after(known)

    def remember(self, name: str, pairs: Sequence[Pair]) -> None:
        """Read pairs that are in the memory while translating, without learning them, and publish the model."""
        if name in self._projects and self._projects[name].is_whole:
            known = self._projects[name]
            known.recall = self._with_pairs(known.recall, pairs)
            self._publish(name, known)
        else:
            self.restore(name)

    def _with_pairs(self, recall: Recall, pairs: Sequence[Pair]) -> Recall:
        """Return pairs that are read with more of them; none if none are read."""
        return recall.with_pairs(self.trainer.ids(pairs)) if self.trainer.recipe.reads else recall

    def resume(self, name: str) -> None:
        """Let a project learn again at the full rate, from where it is."""
        known = self.get(name)
        self.memory.add_check(name, known.last, self._rise(known.own), 1.0, "resumed by a person", None)
        known.rate, known.unchecked = 1.0, 0

    def consolidate(self, name: str) -> bool:
        """Learn all pairs of a project together, and publish the model; return False if other texts would suffer."""
        return self._adopt(name, self.get(name), *self._consolidated(self.memory.learnt(name)))

    def _consolidated(
        self, pairs: Sequence[Pair], is_cancelled: Callable[[], bool] = lambda: False
    ) -> tuple[Arrays | None, float]:
        """Return the parameters after learning pairs together, and the rise of the held-out loss: as much of the change
        as keeps that within bounds, or the least that is tried."""
        found, rise = self.trainer.consolidate(pairs, is_cancelled), 0.0
        if found is None:
            return None, rise
        for share in _SHARES:
            own = self.trainer.mixed(found, share)
            rise = self._rise(own)
            if rise <= SLOWS:
                break
        return own, rise

    def _adopt(self, name: str, known: Project, own: Arrays | None, rise: float) -> bool:
        """Replace the parameters of a project by consolidated ones if other texts are well with them."""
        known.unconsolidated = 0
        if own is None or rise > SLOWS or not known.last:
            return False
        known.is_whole = False
        known.rate = decide(rise, known.rate).rate
        self.memory.add_consolidation(name, known.last, self.trainer.packed(own))
        self.memory.add_check(name, known.last, rise, known.rate, "consolidated", None)
        known.own, known.unchecked, known.unsaved = own, 0, 0
        self._publish(name, known)
        known.is_whole = True
        return True

    def get(self, project: str) -> Project:
        """Return a project as the memory has it, learnt again where it is not in memory yet."""
        if project not in self._projects or not self._projects[project].is_whole:
            self.restore(project)
        return self._projects[project]

    def restore(self, project: str) -> None:
        """Compute a project from its last snapshot and the pairs after it, and publish it. If it was consolidated after
        that snapshot, which then knew a pair that was undone, the pairs that are left are consolidated first."""
        last, content = self.memory.snapshot(project)
        own = self.trainer.first if content is None else self.trainer.unpacked(content)
        checks, learnt = self.memory.checks(project, 1), self.memory.learnt(project)
        point = self.memory.consolidated(project)
        if point > last:
            found, _ = self._consolidated([one for one in learnt if one.number <= point])
            own, last = found or own, point
            self.memory.add_consolidation(project, point, self.trainer.packed(own))
        shortlist = self.base.shortlist
        if shortlist is not None:
            shortlist = with_pairs(shortlist, self.trainer.ids([one for one in learnt if one.number <= last]))
        fresh = Project(own, last, shortlist, self._nothing, self.base, checks[0].rate if checks else 1.0)
        checked = checks[0].number if checks else 0
        fresh.unchecked = sum(checked < one.number <= last for one in learnt)
        fresh.unconsolidated = sum(point < one.number <= last for one in learnt)
        for pair in learnt:
            if pair.number > last:
                self._learn(fresh, pair)
        fresh.recall = self._with_pairs(self._nothing, self.memory.pairs(project))
        self._publish(project, fresh)
        self._look_after(fresh)

    def _learn(self, known: Project, pair: Pair) -> None:
        """Learn a pair with a project; nothing is published yet."""
        recipe = self.trainer.recipe
        found = self.memory.matches(
            pair.project, pair.source, least=recipe.least, most=recipe.neighbours, before=pair.number
        )
        known.own = self.trainer.learn(known.own, pair, [one.pair for one in found])
        if known.shortlist is not None:
            known.shortlist = with_pairs(known.shortlist, self.trainer.ids([pair]))
        known.last, known.unchecked, known.unsaved = pair.number, known.unchecked + 1, known.unsaved + 1
        known.unconsolidated += 1

    def _publish(self, project: str, known: Project) -> None:
        """Make the model of a project the one that translates: one assignment, after which nothing of it changes."""
        if known.last or known.recall:
            translator = copy(self.base)
            if known.recall:
                translator.recall = known.recall.for_another()
            if known.last and known.own:
                (loaded,), base = self.base.loaded, cast(TranslationModel, self.base.model)
                network: Any = self.trainer.network(known.own, base)
                facts = {one.name: getattr(loaded, one.name) for one in fields(LoadedModel)} | {"network": network}
                translator.model, translator.loaded = network, (LearntModel(**facts, own=known.own),)
                translator.shortlist = known.shortlist
            known.translator = translator
        is_new = project not in self._projects
        self._projects[project] = known
        self._changes, self._changed_at = self._changes + 1, time.monotonic()
        if self._changed is not None and (known.translator is not self.base or not is_new):
            self._changed(project, known.translator)

    # ------------------------------------------------------------ in the background

    def _look_after(self, known: Project) -> None:
        """Wake the background thread if a project is to be scored, saved or consolidated."""
        if self._is_due(known):
            self._idle.clear()
        if self._is_due(known) or self._is_loose(known):
            self._work.set()

    def _is_due(self, known: Project) -> bool:
        return known.unsaved >= _SNAPSHOT_EVERY or (
            known.unchecked >= EVERY and known.rate > 0 and bool(self._held_out)
        )

    def _is_loose(self, known: Project) -> bool:
        return self._pause is not None and known.rate > 0 and known.unconsolidated >= _CONSOLIDATED_FROM

    def _run_background(self) -> None:
        """Score, save and consolidate projects: the body of the background thread."""
        pause: float | None = None
        while self._work.wait(pause) is not None and not self.is_closed:
            with self.turn:
                whole = [(name, one) for name, one in self._projects.items() if one.is_whole]
                due = [(name, one, copy(one)) for name, one in whole if self._is_due(one)]
                loose = [] if due else [name for name, one in whole if self._is_loose(one)]
                left = (self._pause or 0) - (time.monotonic() - self._changed_at)
                pause = left if loose and left > 0 else None
                if not due:
                    self._idle.set()
                if not due and (pause or not loose):
                    self._work.clear()
            if loose and not pause:
                self._care(loose[0], partial(self._consolidate_unless_changed, loose[0]))
            for name, one, known in due:
                self._care(name, partial(self._care_for, name, one, known))
        self._idle.set()

    def _care(self, project: str, work: Callable[[], None]) -> None:
        """Do work for a project; its errors are logged, and it is tried again later."""
        try:
            work()
        except Exception:
            _logger.exception("learning: project %r could not be scored, saved or consolidated", project)
            known = self._projects[project]
            known.unchecked = known.unsaved = known.unconsolidated = 0

    def _consolidate_unless_changed(self, name: str) -> None:
        """Consolidate without holding the project's turn; discard the result if a pair came or went meanwhile."""
        with self.turn:
            known, pairs, seen = self._projects[name], self.memory.learnt(name), self._changes
        found = self._consolidated(pairs, lambda: self.is_closed or self._changes != seen)
        with self.turn:
            if not self.is_closed and self._changes == seen:
                self._adopt(name, known, *found)

    def _care_for(self, project: str, now: Project, known: Project) -> None:
        """Score the held-out text with `known`, a former state of `now`, and save that state, if either is due."""
        is_scored = known.unchecked >= EVERY and known.rate > 0 and bool(self._held_out)
        rise = self._rise(known.own) if is_scored else 0.0  # takes most of the time, and no turn
        packed = self.trainer.packed(known.own)
        with self.turn:
            if self.is_closed or self._projects[project] is not now:  # a pair was undone meanwhile
                return
            if known.unsaved >= _SNAPSHOT_EVERY:
                self.memory.save_snapshot(project, known.last, packed)
                now.unsaved -= known.unsaved
            if is_scored:
                self._decide(project, now, known.last, rise)
                now.unchecked -= known.unchecked

    def _rise(self, own: Arrays) -> float:
        """Return how much the loss of the held-out text is above the base model's, in nats a token."""
        if not self._held_out:
            return 0.0
        rise = loss_of(self.trainer.network(own), self._held_out) - self._base_loss
        return rise if math.isfinite(rise) else _INFINITE

    def _decide(self, project: str, now: Project, number: int, rise: float) -> None:
        """Write a score, and do what follows from it."""
        decision = decide(rise, now.rate)
        back_to = None
        if decision.goes_back:
            good = (one.number for one in self.memory.checks(project, 10_000) if one.rise <= SLOWS)
            back_to = next(good, 0)
        self.memory.add_check(project, number, rise, decision.rate, decision.action, back_to)
        if decision.action:
            _logger.info("learning: project %r: %s", project, decision.action)
        now.rate = decision.rate
        if decision.goes_back:
            self.restore(project)


@dataclass(frozen=True, kw_only=True)
class LearntModel(LoadedModel):
    """`own`: the parameters that differ from those in its file, in float32; they are never written to."""

    own: Mapping[str, np.ndarray]

    @override
    def reopened(self, **changes: Any) -> SavedModel:
        saved = super().reopened(**changes)
        params = dict(saved.params)
        for name, array in self.own.items():
            key = PARAMS_PREFIX + name
            if key + SCALES_SUFFIX in params:
                params |= quantised_tensors(name, quantise(array, by_rows=self.network.channels_are_rows(name)))
            else:
                params[key] = array
        return replace(saved, params=params)


def with_pairs(shortlist: Shortlist, pairs: Iterable[tuple[Sequence[int], Sequence[int]]]) -> Shortlist:
    """Return a shortlist with which the target of each pair of subwords can be said. A token that is missing becomes a
    candidate of that source token of the pair that has the fewest: the rarest, so that other sentences stay short."""
    for source, target in pairs:
        known = np.unique([token for token in source if token + 1 < len(shortlist.starts)]).astype(np.int64)
        missing = np.setdiff1d(np.asarray(target, np.int32), shortlist.candidates(source))
        if not len(missing) or not len(known):
            continue
        at = int(known[np.argmin(np.diff(shortlist.starts)[known])])
        starts = shortlist.starts.copy()
        starts[at + 1 :] += len(missing)
        tokens = np.insert(shortlist.tokens, int(shortlist.starts[at + 1]), missing)
        shortlist = Shortlist(starts, tokens.astype(np.int32), shortlist.always, shortlist.vocab_size)
    return shortlist

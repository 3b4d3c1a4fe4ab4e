"""A system's translations in, habits that cost points out: loops, copies, untranslated words, wrong confidence."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mtkit.evaluation.comparison.systems import System, UnknownPieces
from mtkit.evaluation.metrics.buckets import CountedSentences
from mtkit.quality.faults import FAULT_KINDS, Fault, FaultKind, find_faults, words_of

if TYPE_CHECKING:
    from mtkit.translation.confidence import Reliability


@dataclass(frozen=True)
class Habits:
    """What a system does that good ones rarely do."""

    length_ratio: float  # words, over those of the reference
    faults: dict[FaultKind, int]  # how many sentences have one: loops, copies, lost numbers, ...
    untranslated: float  # the share of the translations' words that are taken over from the source for no good reason
    unknown_src: UnknownPieces | None
    unknown_tgt: UnknownPieces | None
    calibration: "Reliability | None"  # of the confidence; None if the system gives none
    good_chrf: float | None


def find_habits(
    system: System,
    sources: Sequence[str],
    references: Sequence[Sequence[str]],
    counted: CountedSentences,
    faults: Sequence[tuple[Fault, ...]],
) -> Habits:
    """A system's habits. references: one or several whole sets; faults: of each sentence, from `faults_of`."""
    kinds = Counter(kind for found in faults for kind in {fault.kind for fault in found})
    return Habits(
        length_ratio=counted.length_ratio(),
        faults={kind: kinds[kind] for kind in FAULT_KINDS},
        untranslated=untranslated_share(system.texts, sources, references),
        unknown_src=system.unknown_src,
        unknown_tgt=system.unknown_tgt,
        calibration=_calibration(system, counted),
        good_chrf=system.good_chrf,
    )


def faults_of(system: System, sources: Sequence[str], tgt_lang: str | None = None) -> list[tuple[Fault, ...]]:
    """What looks wrong with each translation, as `find_faults` sees it."""
    finished = system.finished or [True] * len(sources)
    return [
        find_faults(source, text, finished=ended, tgt_lang=tgt_lang)
        for source, text, ended in zip(sources, system.texts, finished, strict=True)
    ]


def untranslated_share(texts: Sequence[str], sources: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """The share of the translations' words that stand in the source just so, in small letters, and in no reference."""
    n_words, n_kept = 0, 0
    for text, source, *given in zip(texts, sources, *references, strict=True):
        words = words_of(text)
        n_words += len(words)
        suspicious = set(words_of(source)) - {word for reference in given for word in words_of(reference)}
        n_kept += sum(word in suspicious and word.islower() for word in words)
    return n_kept / n_words if n_words else 0.0


def _calibration(system: System, counted: CountedSentences) -> "Reliability | None":
    """How well the confidences fit what came of it, over the sentences that have one."""
    if system.confidences is None or system.good_chrf is None:
        return None
    from mtkit.translation.confidence import reliability

    pairs = [
        (confidence, chrf >= system.good_chrf)
        for confidence, chrf in zip(system.confidences, counted.sentence_chrf(), strict=True)
        if confidence is not None
    ]
    if not pairs:
        return None
    return reliability(np.array([confidence for confidence, _ in pairs]), np.array([good for _, good in pairs]))

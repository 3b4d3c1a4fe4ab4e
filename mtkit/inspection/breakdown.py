"""A system's translations in, what is behind its score out: scores by kind of sentence, and habits that cost points."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mtkit.data.special_ids import UNK_ID
from mtkit.data.tokenizer import Tokenizer
from mtkit.decoding.suspects import FAULT_KINDS, Fault, FaultKind, find_faults, words_of
from mtkit.evaluation.buckets import PART_METRICS, CountedSentences
from mtkit.inspection.features import Feature

if TYPE_CHECKING:
    from mtkit.decoding.confidence import Confidence, Reliability
    from mtkit.decoding.translator import Translation, Translator


@dataclass(frozen=True)
class UnknownPieces:
    """How much of a text a tokenizer has no piece for, so that bytes or <unk> stand there."""

    n_pieces: int
    n_unknown: int

    @property
    def share(self) -> float:
        """Of all pieces."""
        return self.n_unknown / self.n_pieces if self.n_pieces else 0.0

    @classmethod
    def of(cls, lines: Sequence[Sequence[int]], tokenizer: Tokenizer) -> "UnknownPieces":
        """lines: token ids."""
        unknown = {UNK_ID, *tokenizer.byte_ids()}
        return cls(sum(map(len, lines)), sum(token in unknown for ids in lines for token in ids))


@dataclass(frozen=True)
class System:
    """What is to be judged: translations, and what only a model can tell of them."""

    name: str
    texts: Sequence[str]
    finished: Sequence[bool] | None = None  # False: the length limit ended it
    confidences: Sequence[float | None] | None = None  # by the bundle's calibration
    good_chrf: float | None = None  # from which sentence chrF on the calibration calls a translation good
    unknown_src: UnknownPieces | None = None  # of the source text
    unknown_tgt: UnknownPieces | None = None  # of the translations


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


def breakdown_structure(
    systems: Mapping[str, Sequence[str]], references: Sequence[Sequence[str]], features: Sequence[Feature]
) -> list[dict[str, Any]]:
    """What each system scores on the sentences of each kind, for JSON. systems: name to translations."""
    counted = {name: CountedSentences(texts, references) for name, texts in systems.items()}
    return [
        {
            "name": feature.name,
            "how": feature.how,
            "buckets": [
                {"name": bucket, "systems": {name: asdict(counts.score(numbers)) for name, counts in counted.items()}}
                for bucket in feature.buckets
                if (numbers := feature.numbers(bucket))
            ],
        }
        for feature in features
    ]


def breakdown_table(structure: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What `breakdown_structure` gives, as the lines of tables for people."""
    for feature in structure:
        names = list(feature["buckets"][0]["systems"])
        columns = [f"{metric} {name}" if len(names) > 1 else metric for metric in PART_METRICS for name in names]
        widths = [max(7, len(column)) for column in columns]
        heading = "".join(f"  {column:>{width}}" for column, width in zip(columns, widths, strict=True))
        yield f"{'by ' + feature['name']:<20}{'sentences':>9}{heading}"
        for bucket in feature["buckets"]:
            found = list(bucket["systems"].values())
            values = [scores["scores"][metric] for metric in PART_METRICS for scores in found]
            cells = "".join(f"  {value:>{width}.2f}" for value, width in zip(values, widths, strict=True))
            yield f"  {bucket['name']:<18}{found[0]['n']:>9,}{cells}"


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


def translated_system(
    name: str,
    translator: "Translator",
    sources: Sequence[str],
    watch: "Callable[[Iterator[Translation]], Iterator[Translation]]" = lambda stream: stream,
) -> System:
    """A model's translations of the sources with what it knows of them. watch: sees each one as it comes."""
    found = list(watch(translator.stream(sources)))
    calibration = _calibration_file(translator)
    best = [translation.n_best[0] for translation in found]
    return System(
        name,
        [translation.text for translation in found],
        finished=[translation.finished for translation in found],
        confidences=[translator.confidence(candidate) for candidate in best] if calibration else None,
        good_chrf=calibration.threshold if calibration else None,
        unknown_src=UnknownPieces.of(translator.src_tokenizer.encode_batch(list(sources)), translator.src_tokenizer),
        unknown_tgt=UnknownPieces.of([candidate.ids for candidate in best], translator.tgt_tokenizer),
    )


def _calibration_file(translator: "Translator") -> "Confidence | None":
    from mtkit.decoding.bundle import bundle_file
    from mtkit.decoding.confidence import CONFIDENCE_FILE, Confidence

    path = bundle_file(translator.files, CONFIDENCE_FILE) if translator.files is not None else None
    return None if path is None else Confidence.load(path)


def _calibration(system: System, counted: CountedSentences) -> "Reliability | None":
    """How well the confidences fit what came of it, over the sentences that have one."""
    if system.confidences is None or system.good_chrf is None:
        return None
    from mtkit.decoding.confidence import reliability

    pairs = [
        (confidence, chrf >= system.good_chrf)
        for confidence, chrf in zip(system.confidences, counted.sentence_chrf(), strict=True)
        if confidence is not None
    ]
    if not pairs:
        return None
    return reliability(np.array([confidence for confidence, _ in pairs]), np.array([good for _, good in pairs]))

"""Align the sentences of two documents that translate each other."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mtkit.corpora.alignment.aligner import align_texts
from mtkit.corpora.alignment.beads import Beads, Priors
from mtkit.corpora.alignment.moved import find_moved, merge_beads, not_covered, without_lines
from mtkit.corpora.alignment.words import Vocabulary
from mtkit.errors import DataError, UsageError
from mtkit.pair_files import corpus_files
from mtkit.pair_files.compression import open_output
from mtkit.pair_files.lines import read_lines
from mtkit.pair_files.pairs import Languages, segment
from mtkit.text.sentences import sentences

# Gale and Church 1993, table 5, has 2.3, 4.4 and 4.5 for each line of a gap. These, with which words weigh more against
# merges, were chosen on aptitude's manual in English and French. A gap costs mostly for being opened: chapters miss.
PRIORS = Priors(two_one=4.0, two_two=8.0, gap=3.5, gap_line=0.5)
_TELLING = 100  # sentences that teach enough of a lexicon to tell documents without any relation
_LEAST_SHARE = 0.3  # of sentences with a partner; 0.02 to 0.06 in documents that have nothing to do with each other


@dataclass(frozen=True)
class SentencePair:
    """Sentences of both documents, joined by spaces, that translate each other."""

    src: str
    tgt: str
    kind: str  # numbers of sentences, such as 2-1
    score: float  # nats that speak for a translation, by the words of the sentence


@dataclass(frozen=True)
class AlignedDocuments:
    """Two documents, and the pairs of their sentences."""

    src: Sequence[str]
    tgt: Sequence[str]
    beads: Beads  # pairs only, in the order of the source
    n_moved: int  # sentences of the source whose translations stand elsewhere than the order makes expect

    @property
    def share(self) -> float:
        """The share of the shorter document's sentences that have a likely partner."""
        likely = self.beads.take(self.beads.scores > 0)
        n_likely = likely.sizes().sum(axis=0)
        return min(1.0, max(float(n_likely[0]) / len(self.src), float(n_likely[1]) / len(self.tgt)))

    @property
    def is_related(self) -> bool:
        """Whether one of the documents is a translation of the other, or of a part of it; True if they are short."""
        return min(len(self.src), len(self.tgt)) < _TELLING or self.share >= _LEAST_SHARE

    def pairs(self) -> Iterator[SentencePair]:
        """Yield the pairs in the order of the source."""
        for (a, b), (c, d), score in zip(
            self.beads.src.tolist(), self.beads.tgt.tolist(), self.beads.scores.tolist(), strict=True
        ):
            yield SentencePair(" ".join(self.src[a:b]), " ".join(self.tgt[c:d]), f"{b - a}-{d - c}", score)

    def unaligned(self) -> tuple[list[int], list[int]]:
        """Return the sentences of either document, from 0, that are in no pair."""
        sides = (self.beads.src, len(self.src)), (self.beads.tgt, len(self.tgt))
        src, tgt = (np.flatnonzero(not_covered(spans, n)).tolist() for spans, n in sides)
        return src, tgt


def read_sentences(path: Path) -> list[str]:
    """Return the sentences of a plain text file with a sentence or a paragraph a line; blank lines only separate.

    Raises DataError if there is none, or the file is not text.
    """
    found = [sentence for line in read_lines(path) if line.strip() for sentence in sentences(line.strip())]
    if not found:
        raise DataError(f"{path}: no text, so there is nothing to align; give the document as plain text")
    return found


def align_documents(
    src: Sequence[str],
    tgt: Sequence[str],
    translations: Sequence[str] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> AlignedDocuments:
    """Align sentences: one or two of either side, in order; then those whose order differs.

    translations: of each source sentence into the target's language, by a model. They are compared with the target,
    too, as Bleualign does, so that equal words count; where they say nothing, the source does.
    """
    vocabulary = Vocabulary()
    src_side, tgt_side = vocabulary.read(src), vocabulary.read(tgt)
    translated = None if translations is None else vocabulary.read(translations)
    aligned = align_texts(src_side, tgt_side, vocabulary, PRIORS, translated=translated, progress=progress)
    progress("sentences that moved")
    moved = find_moved(aligned, PRIORS)
    beads = merge_beads([without_lines(aligned.beads, moved), *moved])
    n_moved = sum(int(np.diff(run.src).sum()) for run in moved)
    return AlignedDocuments(src, tgt, beads, n_moved)


def check_details(outputs: Sequence[Path], details: bool) -> None:
    """Raise UsageError if the output format has no columns for details."""
    if details and ".tsv" not in outputs[0].suffixes:
        raise UsageError(f"--details: {outputs[0]} has no columns for the kind and the score; write a .tsv")


def write_pairs(aligned: AlignedDocuments, outputs: Sequence[Path], langs: Languages, details: bool = False) -> None:
    """Write the pairs in a format by the outputs' names; with details, a TSV: source, target, kind, score."""
    if details:
        with open_output(outputs[0]) as file:
            for pair in aligned.pairs():
                file.write(f"{segment(pair.src)}\t{segment(pair.tgt)}\t{pair.kind}\t{pair.score:.2f}\n")
        return
    with corpus_files.writing(outputs, langs) as write:
        for pair in aligned.pairs():
            write(pair.src, pair.tgt)


def write_unaligned(aligned: AlignedDocuments, paths: tuple[Path, Path], aside: Path) -> None:
    """Write the sentences that are in no pair as TSV: file, number of the sentence, text."""
    with open_output(aside) as file:
        for path, texts, rest in zip(paths, (aligned.src, aligned.tgt), aligned.unaligned(), strict=True):
            file.writelines(f"{path}\t{number + 1}\t{segment(texts[number])}\n" for number in rest)

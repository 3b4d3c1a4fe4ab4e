"""Identify the language of lines, many at a time. The answer may be "unsure", and short lines are judged together.

The model is py3langid's, a naive Bayes classifier over byte n-grams (Lui and Baldwin 2011). Here its automaton reads
all lines of a window at once. We limit it to the expected language and the most likely other ones, because each further
language adds mistakes on short lines.
"""

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from mtkit.errors import UsageError
from mtkit.languages import primary_code
from mtkit.text.scripts import scripts_of

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

UNSURE = "unsure"
BLOCK = 16  # lines that are judged together if each alone leaves a doubt; blocks begin at line 1, 17, ... of a file
_MOST_BYTES = 600  # of a line that are read; more would not change the answer
_SURE = 0.9  # the least probability at which a language is the answer
_DOUBTFUL = 0.2  # only a line whose expected language is less likely than this may follow the verdict on its block
_FEWEST_TOGETHER = 3  # at least this many different lines are judged as one text
_LINES_AT_ONCE = 4096  # bounds memory
# The most common languages of the web and of each script, without their close relatives.
INTRUDERS = tuple(
    "en de fr es pt it nl pl ru sv da cs ro hu fi tr id vi el ar he hi ja ko zh th uk".split()  # noqa: SIM905
)
# Languages that a classifier confuses on single lines, so none of a group counts as foreign to another.
_ALIKE = (
    *({"da", "no", "nb", "nn", "sv"}, {"hr", "bs", "sr", "sh", "sl"}, {"cs", "sk"}, {"id", "ms", "jv", "su"}),
    *({"pt", "gl"}, {"es", "gl", "ast", "an", "ca"}, {"nl", "af", "li", "fy", "nds"}, {"ru", "uk", "be", "bg", "mk"}),
    *({"de", "lb", "nds"}, {"fr", "oc", "wa", "br"}, {"hi", "mr", "ne", "sa"}, {"it", "sc", "co", "fur"}),
    *({"tr", "az"}, {"fi", "et"}, {"ar", "fa", "ur", "ps", "ug"}, {"zh", "yue", "wuu", "lzh"}),
)


class Identifier:
    """Distinguishes between some languages."""

    def __init__(self, langs: Sequence[str]) -> None:
        """langs: codes that the model knows."""
        model = _model()
        self.langs = list(langs)
        self._table = np.ascontiguousarray(model.table[:, [model.columns[lang] for lang in langs]], np.float32)
        self._prior = model.prior[[model.columns[lang] for lang in langs]]

    def scores(self, texts: Sequence[str]) -> tuple[Floats, Ints]:
        """Return the log-probability of each language up to a constant, (lines, languages), and each line's bytes."""
        raw = [text.lower().encode() if text.isupper() else text.encode("utf-8", "surrogatepass") for text in texts]
        raw = [text[:_MOST_BYTES] for text in raw]
        sizes = np.fromiter(map(len, raw), np.int64, len(raw))
        scores = np.empty((len(raw), len(self.langs)), np.float32)
        for start in range(0, len(raw), _LINES_AT_ONCE):
            part = slice(start, start + _LINES_AT_ONCE)
            scores[part] = self._scores(raw[part], sizes[part])
        return scores, sizes

    def _scores(self, raw: Sequence[bytes], sizes: Ints) -> Floats:
        lines, features = _features(raw, sizes)
        n_features = len(self._table)
        keys, counts = np.unique(lines * n_features + features, return_counts=True)
        lines, features = np.divmod(keys, n_features)
        weights = np.log1p(counts.astype(np.float32))
        scores = np.zeros((len(raw), len(self.langs)), np.float32)  # of lines without a known n-gram
        if len(keys):
            first = np.flatnonzero(np.diff(lines, prepend=-1))
            scores[lines[first]] = self._prior + np.add.reduceat(self._table[features] * weights[:, None], first)
        return scores

    def probabilities(self, texts: Sequence[str]) -> Floats:
        """Return the probability of each language, (lines, languages); all are equal for text without letters."""
        return softmax(*self.scores(texts))

    def identify(self, texts: Sequence[str]) -> list[str]:
        """Return the language of each text, or UNSURE."""
        probabilities = self.probabilities(texts)
        best = probabilities.argmax(axis=1)
        sure = probabilities[np.arange(len(texts)), best] >= _SURE
        return [self.langs[i] if is_sure else UNSURE for i, is_sure in zip(best.tolist(), sure.tolist(), strict=True)]


def knows(lang: str) -> bool:
    """Return whether the model can recognise this language. Raises UsageError if py3langid is missing."""
    return known_code(lang) is not None


def candidates(lang: str, other: str) -> tuple[str, ...]:
    """Return the languages that a line which should be in lang is compared with, lang first.

    other: the language of the other side of the corpus. Lines in another script are left to the rule on scripts.
    """
    own, known_other = known_code(lang), known_code(other)
    assert own is not None
    alike = alike_languages([own]) - {own, known_other}
    own_scripts = {*scripts_of(lang)} or {*scripts_of(own)}
    intruders = [code for code in INTRUDERS if code not in alike and own_scripts & {*scripts_of(code)}]
    return tuple(dict.fromkeys([own, *([known_other] if known_other else []), *intruders]))


def alike_languages(langs: Sequence[str]) -> set[str]:
    """Return these languages and all that a classifier confuses with them on single lines."""
    return set(langs).union(*(group for group in _ALIKE if group.intersection(langs)))


def foreign_lines(texts: Sequence[str], lang: str, other: str, places: Sequence[int]) -> dict[int, str]:
    """Return the index and the language of each line that is surely not in lang; none if the model lacks lang.

    other: the language of the other side. places: each line's number in its file, from 1. A doubtful line is foreign
    if all doubtful lines of its block, judged as one text, are foreign.
    """
    if not knows(lang):
        return {}
    identifier = identifier_of(candidates(lang, other))
    scores, sizes = identifier.scores(texts)
    probabilities = softmax(scores, sizes)
    best = probabilities.argmax(axis=1)
    highest = probabilities[np.arange(len(texts)), best]
    foreign = {
        int(i): f"{identifier.langs[best[i]]} {highest[i]:.2f}" for i in np.flatnonzero((best > 0) & (highest >= _SURE))
    }
    doubtful = (highest < _SURE) & (probabilities[:, 0] < _DOUBTFUL)
    if doubtful.any():
        foreign.update(_foreign_together(np.flatnonzero(doubtful), texts, scores, sizes, places, identifier.langs))
    return dict(sorted(foreign.items()))


def _foreign_together(
    doubtful: Ints, texts: Sequence[str], scores: Floats, sizes: Ints, places: Sequence[int], langs: Sequence[str]
) -> dict[int, str]:
    """Judge the doubtful lines of each block as one text, in which a repeated line counts once."""
    blocks: dict[int, list[int]] = {}
    for i in doubtful.tolist():
        blocks.setdefault((places[i] - 1) // BLOCK, []).append(i)
    foreign = {}
    for block in blocks.values():
        distinct = list({texts[i]: i for i in block}.values())
        if len(distinct) < _FEWEST_TOGETHER:
            continue
        [together] = softmax(scores[distinct].sum(axis=0, keepdims=True), sizes[distinct].sum(keepdims=True))
        if together.argmax() > 0 and together.max() >= _SURE:
            answer = f"{langs[together.argmax()]} {together.max():.2f} with its neighbours"
            foreign.update(dict.fromkeys(block, answer))
    return foreign


def softmax(scores: Floats, sizes: Ints, leads: Floats | float = 0.0) -> Floats:
    """Return probabilities; the temperature sqrt(bytes) keeps them calibrated across lengths, as py3langid found.

    leads: log-odds of the languages from other evidence.
    """
    scaled = scores / np.sqrt(np.maximum(sizes, 1))[:, None] + leads
    exp = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return np.asarray(exp / exp.sum(axis=1, keepdims=True), np.float32)


class _Model:
    """py3langid's automaton and tables, as arrays."""

    def __init__(self) -> None:
        try:
            from py3langid.langid import MODEL_FILE, LanguageIdentifier
        except ImportError:
            raise UsageError(
                "language identification needs py3langid: pip install 'mtkit[data]'; or switch the rule off with "
                "--set clean.language=false"
            ) from None
        model = LanguageIdentifier.from_model_file(MODEL_FILE)
        self.table = np.asarray(model.nb_ptc)
        self.prior = np.asarray(model.nb_pc, np.float32)
        self.columns = {code: i for i, code in reversed(list(enumerate(model.nb_classes)))}  # of aliases the first
        self.row = np.asarray(model.tk_row, np.int64) << 8
        self.next = np.asarray(model.tk_nextmove)
        self.output = np.asarray(model.tk_output, np.int64)
        self._views = self.row.data, self.next.data, self.output.data  # read faster one by one

    def walk(self, raw: bytes) -> Iterator[int]:
        """Yield the number of every n-gram in one line that the model knows, as often as it occurs."""
        row, following, output = self._views
        state = 0
        for byte in raw:
            state = following[row[state] + byte]
            if (feature := output[state]) >= 0:
                yield feature


@cache
def _model() -> _Model:
    return _Model()


@cache
def identifier_of(langs: tuple[str, ...]) -> Identifier:
    """Return the one that distinguishes between these languages. To make another one copies a large table."""
    return Identifier(langs)


def known_code(lang: str) -> str | None:
    """Return the model's code of a language; None if it lacks the language. Raises UsageError without py3langid."""
    code = primary_code(lang)
    code = {"nb": "no", "cmn": "zh", "fil": "tl"}.get(code, code)
    return code if code in _model().columns else None


def _features(raw: Sequence[bytes], sizes: Ints) -> tuple[Ints, Ints]:
    """Return every n-gram that the model knows, as often as it occurs: its line, and its number."""
    model = _model()
    if len(raw) == 1:  # arrays of one would take sixty times as long
        found = np.fromiter(model.walk(raw[0]), np.int64)
        return np.zeros(len(found), np.int64), found
    order = np.argsort(-sizes, kind="stable")  # longest first, so that the lines that have not ended yet come first
    data = np.frombuffer(b"".join(raw), np.uint8)
    at = (np.cumsum(sizes) - sizes)[order]
    n_active = len(raw) - np.searchsorted(np.sort(sizes), np.arange(int(sizes.max(initial=0))), side="right")
    states = np.zeros(len(raw), np.int64)
    lines, features = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for step, n in enumerate(n_active.tolist()):
        states[:n] = model.next[model.row[states[:n]] + data[at[:n] + step]]
        output = model.output[states[:n]]
        hits = np.flatnonzero(output >= 0)
        lines.append(order[hits])
        features.append(output[hits])
    return np.concatenate(lines), np.concatenate(features)

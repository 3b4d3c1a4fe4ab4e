"""Measure a corpus and find what is wrong with it: figures, and findings with shares and examples.

One pass counts words and repeats of all pairs. Whatever takes longer (the cleaning rules, languages, near duplicates)
is done for all pairs of a small corpus and for an even sample of a large one: blocks of 16 pairs at equal distances,
because the language of a short line is judged with its neighbours.
"""

import heapq
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import numpy.typing as npt

from mtkit.config.augment import AugmentConfig
from mtkit.config.cleaning import CleanConfig
from mtkit.config.tokenizer import TokenizersConfig
from mtkit.console import progress_bar
from mtkit.corpora.cleaning.clean import judge
from mtkit.corpora.cleaning.near_duplicates import MOST_PAIRS, Indices, Sketches, find_repeats_among, sketch
from mtkit.corpora.cleaning.repair import repair
from mtkit.corpora.streams import DistinctCount, EvenSample, Hashes, Share, hashes_of, sampled_share
from mtkit.data.corpus import evenly_spaced
from mtkit.data.modifiers import ChangeExample, Modifiers, change_examples
from mtkit.data.overlap import LIKENESSES, find_overlaps
from mtkit.languages import SIDES, WITHOUT_SPACES, primary_code
from mtkit.pair_files.lines import windows
from mtkit.pair_files.pairs import Pair
from mtkit.text.near_texts import squeezed
from mtkit.text.sentences import QUESTIONS, final_marks
from mtkit.text.words import words_of
from mtkit.tokens.changed_characters import ChangedCharacters
from mtkit.tokens.normalization import normalizer

ReadPairs = Callable[[], Iterator[Pair]]

BLOCK = 16  # pairs
_MOST_BLOCKS = 1 << 13  # 131,072 pairs; between half of them and all are judged
_MOST_WINDOWS = 256  # 1,048,576 pairs, among which near duplicates are looked for
_N_EXAMPLES = 5
_N_LONGEST = 5
_PAIRS_TO_CHANGE = 100  # among which examples of `augment` are looked for
_GROWTH_POINTS = 24
_EXAMPLES_FROM = 1_000_000  # examples of repeats are fetched from the first pairs


@dataclass(frozen=True)
class Example:
    """A pair with a finding. detail: what was found, such as the lost number."""

    place: str
    src: str
    tgt: str
    detail: str = ""


@dataclass(frozen=True)
class Finding:
    """One kind of problem, and how many pairs have it."""

    name: str
    share: Share
    examples: list[Example] = field(default_factory=list)
    note: str = ""  # what was counted, where that is not all pairs or an even sample of them


@dataclass(frozen=True)
class SideFacts:
    """Figures about one side of the corpus."""

    language: str
    n_words: int
    n_characters: int
    scripts: dict[str, float]  # share of the letters, from many to few
    foreign: dict[str, int]  # pairs with a line in another language, by its code
    words_per_line: list[int]  # of each judged pair, sorted
    longest: list[Example]  # of all pairs; detail: its characters
    growth: list[tuple[int, int]]  # words read and distinct words among them, as the judged pairs are read


@dataclass(frozen=True)
class CorpusReport:
    """The whole report."""

    languages: tuple[str, str]
    n_pairs: int
    n_judged: int  # by the rules
    n_compared: int  # among them, near duplicates were looked for
    sides: tuple[SideFacts, SideFacts]
    ratios: list[float]  # characters of the target over those of the source, of each judged pair, sorted
    findings: list[Finding]
    changes: list[ChangeExample]  # of pairs that training with the config changes


def report_corpus(
    read: ReadPairs,
    languages: tuple[str, str],
    held_out: Mapping[str, Sequence[Pair]] | None = None,
    tokenizer: TokenizersConfig | None = None,
    augment: AugmentConfig | None = None,
) -> CorpusReport:
    """Measure a corpus. read: yields its pairs, as often as it is called. held_out: dev and test, for their overlap.

    tokenizer: settings whose normalisation is tried; by default, those of a new config. augment: changes to show.
    """
    whole = _Whole(languages)
    with progress_bar(None, "reading", "pair", delay=2.0) as bar:
        for window in windows(read(), MOST_PAIRS):
            whole.add(window)
            bar.update(len(window))
    judged = _judge(whole.blocks.items, languages, CleanConfig(), is_all=whole.blocks.every == 1)
    normalized = _normalization_findings(judged, tokenizer or TokenizersConfig())
    findings = [
        *_rule_findings(judged),
        *normalized,
        *_repeat_findings(whole, read),
        *_overlap_findings(held_out or {}, read),
    ]
    some = [pair[:2] for pair in evenly_spaced(judged.pairs, _PAIRS_TO_CHANGE)]
    return CorpusReport(
        languages,
        whole.n_pairs,
        sum(map(len, whole.blocks.items)),
        sum(len(hashes) for _, _, hashes in whole.sketched.items),
        (_side(whole, judged, languages, 0), _side(whole, judged, languages, 1)),
        sorted(len(pair.tgt) / max(1, len(pair.src)) for block in whole.blocks.items for pair in block),
        findings,
        change_examples(augment.rates if augment else {}, Modifiers(*languages), some),
    )


class _Whole:
    """The counts over all pairs, and the samples."""

    def __init__(self, languages: tuple[str, str]) -> None:
        self._languages = languages
        self.n_pairs = 0
        self.n_words, self.n_characters = [0, 0], [0, 0]
        self.longest: list[list[tuple[int, int, Pair]]] = [[], []]  # characters, minus the place; heaps
        self.distinct = {kind: DistinctCount() for kind in ("pair", "source", "target")}
        self.blocks: EvenSample[list[Pair]] = EvenSample(_MOST_BLOCKS)
        self.sketched: EvenSample[tuple[int, Sketches, Hashes]] = EvenSample(_MOST_WINDOWS)

    def add(self, window: list[Pair]) -> None:
        """Count a window of MOST_PAIRS pairs; the last may have fewer."""
        texts = [[squeezed(getattr(pair, side)) for pair in window] for side in SIDES]
        for side in range(2):
            self.n_words[side] += sum(_n_words_of(texts[side], self._languages[side]))
            lengths = [len(getattr(pair, SIDES[side])) for pair in window]
            self.n_characters[side] += sum(lengths)
            for i in heapq.nlargest(_N_LONGEST, range(len(window)), key=lengths.__getitem__):
                entry = lengths[i], -(self.n_pairs + i), window[i]
                if len(self.longest[side]) < _N_LONGEST:
                    heapq.heappush(self.longest[side], entry)
                elif entry > self.longest[side][0]:
                    heapq.heapreplace(self.longest[side], entry)
        pair_hashes = hashes_of(map("\t".join, zip(*texts, strict=True)))
        self.distinct["pair"].add(pair_hashes)
        self.distinct["source"].add(hashes_of(texts[0]))
        self.distinct["target"].add(hashes_of(texts[1]))
        for start in range(0, len(window), BLOCK):
            if self.blocks.wants((self.n_pairs + start) // BLOCK):
                self.blocks.items.append(window[start : start + BLOCK])
        if self.sketched.wants(self.n_pairs // MOST_PAIRS):
            self.sketched.items.append((self.n_pairs, sketch([pair[:2] for pair in window]), pair_hashes))
        self.n_pairs += len(window)


@dataclass(frozen=True)
class _Judged:
    """The judged pairs, and the details found, by the finding's name and the pair's index."""

    pairs: list[Pair]
    blocks: list[int]  # how many pairs each block has
    is_all: bool
    found: dict[str, dict[int, str]]

    def share(self, indices: Collection[int]) -> Share:
        """Return the share of these pairs, which have a finding."""
        if self.is_all:
            return Share(len(indices), len(self.pairs))
        ends = np.cumsum(self.blocks)
        counts = np.bincount(np.searchsorted(ends, sorted(indices), side="right"), minlength=len(ends))
        return sampled_share(counts.tolist(), self.blocks)


def _judge(blocks: Sequence[list[Pair]], languages: tuple[str, str], cfg: CleanConfig, is_all: bool) -> _Judged:
    """Apply the cleaning rules and the rules of this report to blocks of pairs."""
    pairs = [pair for block in blocks for pair in block]
    found: dict[str, dict[int, str]] = {}
    start = 0
    with progress_bar(len(pairs), "judging", "pair", delay=2.0) as bar:
        for window in windows(pairs, MOST_PAIRS):
            judged = judge(window, languages, cfg)
            verdicts: dict[str, Mapping[int, str]] = dict(judged.alone)
            repaired = list(zip(judged.src, judged.tgt, strict=True))
            changed = [i for i, texts in enumerate(repaired) if window[i][:2] != texts]
            verdicts["mojibake"] = {i: "" for i in changed if repair(window[i][:2], ["mojibake"]) != [*window[i][:2]]}
            verdicts["repairs"] = {i: "" for i in changed if i not in verdicts["mojibake"]}
            verdicts["end"] = {i: why for i, texts in enumerate(repaired) if (why := _different_ends(*texts))}
            for name, values in verdicts.items():
                found.setdefault(name, {}).update({start + i: value for i, value in values.items()})
            start += len(window)
            bar.update(len(window))
    return _Judged(pairs, list(map(len, blocks)), is_all, found)


def _different_ends(src: str, tgt: str) -> str:
    """Return how the ends of two sentences differ: one is a question, or one has no end; "" if they do not."""
    ends = [_end_in_words(text) for text in (src, tgt)]
    return "" if ends[0] == ends[1] or not src or not tgt else f"source: {ends[0]}; target: {ends[1]}"


def _end_in_words(text: str) -> str:
    marks = final_marks(text.rstrip("*_ "))  # without the marks of bold and italics
    if not marks:
        return "no mark at the end"
    return "a full stop or the like" if QUESTIONS.isdisjoint(marks) else "a question mark"


def _rule_findings(judged: _Judged) -> Iterator[Finding]:
    for name, values in judged.found.items():
        examples = [_example(judged.pairs[i], values[i]) for i in evenly_spaced(sorted(values), _N_EXAMPLES)]
        yield Finding(name, judged.share(values), examples)


def _normalization_findings(judged: _Judged, cfg: TokenizersConfig) -> Iterator[Finding]:
    """Yield for each side the pairs with characters that the normalisation of its tokenizer changes."""
    cfg = cfg.with_source_rule()
    for side, settings in zip(SIDES, (cfg.src, cfg.src if cfg.shared else cfg.tgt), strict=True):
        rule = settings.normalization
        changed = ChangedCharacters(normalizer(rule))
        details = {i: ", ".join(map(str, changed.add(getattr(pair, side)))) for i, pair in enumerate(judged.pairs)}
        values = {i: detail for i, detail in details.items() if detail}
        examples = [_example(judged.pairs[i], values[i]) for i in evenly_spaced(sorted(values), _N_EXAMPLES)]
        note = f"normalization: {rule} changes {changed.all()}" if values else ""
        yield Finding(f"normalized {side}", judged.share(values), examples, note)


def _repeat_findings(whole: _Whole, read: ReadPairs) -> Iterator[Finding]:
    """Yield the findings about pairs that repeat others, exactly or nearly."""
    distinct = {kind: min(count.count(), whole.n_pairs) for kind, count in whole.distinct.items()}
    later, earlier, is_same = _near(whole)
    shown = [np.flatnonzero(which & (later < _EXAMPLES_FROM)) for which in (is_same, ~is_same)]
    chosen = [evenly_spaced(places.tolist(), _N_EXAMPLES) for places in shown]
    texts = _fetch(read, {int(place) for rows in chosen for row in rows for place in (later[row], earlier[row])})
    examples = [[_repeat_example(texts[int(later[i])], texts[int(earlier[i])]) for i in rows] for rows in chosen]
    estimated = "" if whole.distinct["pair"].is_exact else "estimated from a part of the pairs chosen by hash"
    yield Finding("repeats", Share(whole.n_pairs - distinct["pair"], whole.n_pairs), examples[0], estimated)
    n_compared = sum(len(hashes) for _, _, hashes in whole.sketched.items)
    among = "" if n_compared == whole.n_pairs else f"among {n_compared:,} pairs, evenly spaced; all of them have more"
    yield Finding("near repeats", Share(int((~is_same).sum()), n_compared), examples[1], among)
    for name, kind in (("several translations", "source"), ("several sources", "target")):
        n = max(0, distinct["pair"] - distinct[kind])
        yield Finding(name, Share(n, whole.n_pairs), [], estimated)


def _near(whole: _Whole) -> tuple[Indices, Indices, npt.NDArray[np.bool_]]:
    """Return the places of the pairs that nearly repeat an earlier one, of that one, and whether both are the same."""
    starts, sketches, hashes = zip(*whole.sketched.items, strict=True) if whole.sketched.items else ((), (), ())
    places = np.concatenate(
        [start + np.arange(len(h)) for start, h in zip(starts, hashes, strict=True)] or [_NO_PLACES]
    )
    all_hashes = np.concatenate(hashes or [np.empty(0, np.uint64)])
    _, first, inverse = np.unique(all_hashes, return_index=True, return_inverse=True)
    same = first[inverse]  # the first pair with the same text
    later, earlier = find_repeats_among(sketches)
    is_same = same[later] < later
    earlier = np.where(is_same, same[later], earlier)
    return places[later], places[earlier], is_same


_NO_PLACES = np.empty(0, np.int64)


def _fetch(read: ReadPairs, places: set[int]) -> dict[int, Pair]:
    """Read the pairs with these places again."""
    last = max(places, default=-1)
    return {i: pair for i, pair in enumerate(islice(read(), last + 1)) if i in places}


def _example(pair: Pair, detail: str) -> Example:
    return Example(pair.place, pair.src, pair.tgt, detail)


def _repeat_example(pair: Pair, earlier: Pair) -> Example:
    detail = f"as {earlier.place}"
    return _example(pair, detail if pair[:2] == earlier[:2] else f"{detail}: {earlier.src} | {earlier.tgt}")


def _overlap_findings(held_out: Mapping[str, Sequence[Pair]], read: ReadPairs) -> Iterator[Finding]:
    """Yield how much of dev and test is in the corpus."""
    if not held_out:
        return
    for name, overlap in find_overlaps(held_out, read()).items():
        by_place = {pair.place: pair for pair in held_out[name]}
        for kind in LIKENESSES:
            places = overlap.examples.get(kind)
            examples = [_example(by_place[places[0]], f"as {places[1]}")] if places else []
            yield Finding(f"{name}: {kind}", Share(overlap.counts[kind], overlap.n_pairs), examples)


def _side(whole: _Whole, judged: _Judged, languages: tuple[str, str], side: int) -> SideFacts:
    texts = [getattr(pair, SIDES[side]) for pair in judged.pairs]
    name = ("source", "target")[side]
    foreign = Counter(
        value.split()[1] for value in judged.found.get("language", {}).values() if value.startswith(f"{name}: ")
    )
    longest = [_example(pair, f"{n:,} characters") for n, _, pair in sorted(whole.longest[side], reverse=True)]
    return SideFacts(
        languages[side],
        whole.n_words[side],
        whole.n_characters[side],
        _scripts(texts),
        dict(foreign.most_common()),
        sorted(_n_words_of(map(squeezed, texts), languages[side])),
        longest,
        _growth(texts),
    )


def _n_words_of(texts: Iterable[str], language: str) -> list[int]:
    """Count the words of each squeezed text, between spaces; the characters in a language without spaces."""
    if primary_code(language) in WITHOUT_SPACES:
        return [len(text) - text.count(" ") for text in texts]
    return [text.count(" ") + 1 if text else 0 for text in texts]


def _scripts(texts: Sequence[str]) -> dict[str, float]:
    """Return each script's share of the letters, by the first word of the letters' Unicode names."""
    letters: Counter[str] = Counter()
    for window in windows(texts, MOST_PAIRS):
        letters.update("".join(window))
    scripts: Counter[str] = Counter()
    for char, n in letters.items():
        if char.isalpha():
            scripts[unicodedata.name(char, "UNNAMED").split()[0].split("-")[0].capitalize()] += n
    total = max(1, scripts.total())
    return {name: n / total for name, n in scripts.most_common()}


def _growth(texts: Sequence[str]) -> list[tuple[int, int]]:
    """Return how the number of distinct words grows with the words read."""
    points, known, n = [(0, 0)], set(), 0
    for part in range(_GROWTH_POINTS):
        for text in texts[part * len(texts) // _GROWTH_POINTS : (part + 1) * len(texts) // _GROWTH_POINTS]:
            words = words_of(text.casefold())
            known.update(words)
            n += len(words)
        points.append((n, len(known)))
    return points

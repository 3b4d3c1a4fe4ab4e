"""Find the pairs of dev and test that are also in the training text: equal, with the same source, or similar."""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from mtkit.config.data import CorpusFiles
from mtkit.console import log, progress_bar
from mtkit.data.corpus import read_pairs, text_checksums
from mtkit.files import parse_json, write_text
from mtkit.pair_files.lines import windows
from mtkit.pair_files.pairs import Pair
from mtkit.text.near_texts import MOST_TEXTS, NearTexts, loose_keys, squeezed

MANY = 0.01  # of the pairs of a text; in large corpora fewer are greetings and the like
_VERSION = 1  # of the kept result

Likeness = Literal["pair", "source", "near"]
LIKENESSES: tuple[Likeness, ...] = get_args(Likeness)
_MOST_COMPARED = 1_000_000  # training pairs whose n-grams are compared; of the others only the keys


@dataclass(frozen=True)
class OverlapWords:
    """The words for the texts of a task in messages."""

    pairs: str
    sources: str
    target: str
    task: str
    of_another: str  # what a source with another target means


_FLATTERS = "scores on them flatter the model"
OF_TRANSLATIONS = OverlapWords("pairs", "sources", "translation", "translation", _FLATTERS)
OF_LABELLED_PAIRS = OverlapWords("pairs", "first texts", "second text", "classification", _FLATTERS)
OF_LABELLED_TEXTS = OverlapWords("texts", "texts", "label", "classification", "one of the labels may be wrong")


@dataclass(frozen=True)
class Overlap:
    """The numbers of pairs of a text with a match in the training text; each pair counts for its closest match only."""

    n_pairs: int
    counts: dict[Likeness, int]  # same pair; same source with another translation; nearly the same source
    examples: dict[Likeness, tuple[str, str]]  # where the first one is, here and in the training text

    def report(self, key: str, words: OverlapWords = OF_TRANSLATIONS) -> None:
        """Log the overlap, with an example of each kind. key: the text's key in the config, such as data.dev."""
        n = {kind: f"{count:,} of the {self.n_pairs:,}" for kind, count in self.counts.items()}
        share = {kind: count / max(1, self.n_pairs) for kind, count in self.counts.items()}
        places = {kind: " as ".join(both) for kind, both in self.examples.items()}
        if "pair" in places:
            log.log(
                logging.WARNING if share["pair"] >= MANY else logging.INFO,
                f"{n['pair']} {words.pairs} of {key} ({share['pair']:.1%}) are also in data.train, {places['pair']}: "
                f"scores on them measure memory, not {words.task}",
            )
        if "source" in places:
            log.log(
                logging.WARNING if share["source"] >= MANY else logging.INFO,
                f"{n['source']} {words.sources} of {key} ({share['source']:.1%}) are in data.train with another "
                f"{words.target}, {places['source']}: {words.of_another}",
            )
        if "near" in places:
            log.info(
                f"{n['near']} {words.sources} of {key} ({share['near']:.1%}) are similar to those of data.train, "
                f"{places['near']}: equal except for case, punctuation or numbers, or in most of their letters"
            )


def overlap_file(run_dir: Path) -> Path:
    """Return the file in which a run stores the result of `overlaps_of` for its dev and test."""
    return run_dir / "cache" / "overlap.json"


def overlaps_of(corpora: Mapping[str, CorpusFiles], train: Sequence[CorpusFiles], kept: Path) -> dict[str, Overlap]:
    """Return the overlap of each corpus, by name, with the training corpora. kept: a file that stores it for the next
    start.
    """
    text = {"version": _VERSION, "names": list(corpora), "text": text_checksums([*corpora.values(), *train])}
    if (known := _read(kept, text)) is not None:
        return known
    found = find_overlaps({name: list(read_pairs([files])) for name, files in corpora.items()}, read_pairs(train))
    kept.parent.mkdir(parents=True, exist_ok=True)
    record = {"of": text, "found": {name: asdict(overlap) for name, overlap in found.items()}}
    write_text(kept, json.dumps(record, ensure_ascii=False) + "\n")
    return found


def known_overlap(run_dir: Path, files: CorpusFiles) -> Overlap | None:
    """Return the overlap of these texts with the run's training text, if the run has computed it; None: unknown."""
    try:
        record = parse_json(overlap_file(run_dir).read_bytes())
        names, texts = list(record["of"]["names"]), list(record["of"]["text"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    found = _read(overlap_file(run_dir), record["of"])
    [wanted] = text_checksums([files])
    return next((found[name] for name, text in zip(names, texts, strict=False) if found and text == wanted), None)


def _read(kept: Path, text: dict[str, Any]) -> dict[str, Overlap] | None:
    """Return the stored overlaps of this text; None if there are none, or if the file is damaged."""
    try:
        record = json.loads(kept.read_text(encoding="utf-8"))
        if record["of"] != text:
            return None
        found = {
            name: Overlap(one["n_pairs"], one["counts"], {kind: (a, b) for kind, (a, b) in one["examples"].items()})
            for name, one in record["found"].items()
        }
        if list(found) != text["names"] or any(set(one.counts) != set(LIKENESSES) for one in found.values()):
            return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return found


def find_overlaps(texts: Mapping[str, Sequence[Pair]], train: Iterable[Pair]) -> dict[str, Overlap]:
    """Return the overlap of each text, such as dev and test, with the training text; reads that only once.

    Two sources are nearly the same if they are equal but for case, punctuation and numbers, or if they share 70 % of
    their n-grams, which are compared with those of the first million training pairs. Memory holds the texts and the
    n-grams of their sources, not the training text.
    """
    held_out = [pair for pairs in texts.values() for pair in pairs]
    closest: list[tuple[int, str] | None] = [None] * len(held_out)  # index of its likeness, place of its like
    sources = [squeezed(pair.src) for pair in held_out]
    targets = [squeezed(pair.tgt) for pair in held_out]
    by_key: dict[str, list[int]] = {}
    for index, key in enumerate(loose_keys(sources)):
        if key:
            by_key.setdefault(key, []).append(index)
    near_texts, n_left = NearTexts(list(by_key)), _MOST_COMPARED
    with progress_bar(None, f"comparing training text with {' and '.join(texts)}", "pair", delay=2.0) as bar:
        for window in windows(train, MOST_TEXTS):
            window_sources = [squeezed(pair.src) for pair in window]
            keys = loose_keys(window_sources)
            likes = [{key} for key in keys]
            for i, near in near_texts.find(keys[:n_left]):
                likes[i].add(near)
            n_left = max(0, n_left - len(keys))
            for pair, source, near_keys in zip(window, window_sources, likes, strict=True):
                for index in (index for key in near_keys for index in by_key.get(key, ())):
                    is_same = source == sources[index]
                    rank = 2 if not is_same else 0 if targets[index] == squeezed(pair.tgt) else 1
                    known = closest[index]
                    if known is None or rank < known[0]:
                        closest[index] = rank, pair.place
            bar.update(len(window))
    found, start = {}, 0
    for name, pairs in texts.items():
        found[name] = _overlap(pairs, closest[start : start + len(pairs)])
        start += len(pairs)
    return found


def _overlap(pairs: Sequence[Pair], closest: Sequence[tuple[int, str] | None]) -> Overlap:
    counts: dict[Likeness, int] = dict.fromkeys(LIKENESSES, 0)
    examples: dict[Likeness, tuple[str, str]] = {}
    for pair, like in zip(pairs, closest, strict=True):
        if like is not None:
            kind = LIKENESSES[like[0]]
            counts[kind] += 1
            examples.setdefault(kind, (pair.place, like[1]))
    return Overlap(len(pairs), counts, examples)

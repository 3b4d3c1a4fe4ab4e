"""Split a corpus into train, dev and test that share no sentence; pairs too similar to dev or test are left out.

Two sentences are the same if they are equal but for case, punctuation and numbers, and nearly the same if they share
70 % of their character 4-grams (`text.near_texts`). No source of dev or test is the same as, or nearly, one of train,
and no target either; nor are those of dev and test. dev and test are chosen by hashes of the sentences and the seed, so
they are the same whatever the order of the corpus, and most of them stay when text is added.
"""

import heapq
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import islice, repeat
from pathlib import Path
from typing import Literal, NamedTuple, TextIO, get_args

from mtkit.console import progress_bar
from mtkit.errors import DataError
from mtkit.files import atomic_folder, write_text
from mtkit.languages import SIDES
from mtkit.pair_files.compression import open_output
from mtkit.pair_files.lines import as_column, as_one_line, windows
from mtkit.pair_files.pairs import Pair
from mtkit.text.near_texts import MOST_TEXTS, NearTexts, loose_keys, squeezed

HeldOutPart = Literal["test", "dev"]
Reason = Literal["source", "target", "near source", "near target"]
REASONS: tuple[Reason, ...] = get_args(Reason)
_PARTS: tuple[HeldOutPart, ...] = get_args(HeldOutPart)
LEFT_OUT = "left-out.tsv.gz"
REPORT = "split.json"
_COLUMNS = "file", "line or unit", "like a pair of", "by its", "source", "target"  # of LEFT_OUT
_SPARE = 1000  # candidates beyond twice those needed
_FIRST_BLOCK = 64  # candidates

ReadPairs = Callable[[], Iterator[Pair]]
ReadDocuments = Callable[[], Iterator[str]]


class Like(NamedTuple):
    """Why a pair stays out of train: the part that contains a similar pair, and on which side."""

    part: HeldOutPart
    reason: Reason


@dataclass(frozen=True)
class SplitReport:
    """The number of pairs in each part. n_pairs is the sum of train, dev, test and left_out."""

    n_pairs: int
    train: int
    dev: int
    test: int
    left_out: dict[str, int]  # by part and reason, such as "test: near source"
    seed: int
    by_document: bool

    @property
    def kept(self) -> int:
        """Return how many pairs are in train, dev or test."""
        return self.train + self.dev + self.test


def split(
    read: ReadPairs,
    folder: Path,
    languages: tuple[str, str],
    *,
    n_pairs: int,
    n_dev: int,
    n_test: int,
    seed: int,
    documents: ReadDocuments | None = None,
) -> SplitReport:
    """Write the folder with train, dev and test (PART.LANGUAGE), what is left out, and the report.

    read: yields the n_pairs of the corpus, as often as it is called. documents: yields the document of each of them;
    whole documents are then held out. The folder appears when all is done, and replaces an old one.
    Raises DataError if the corpus has too few sentences that are unlike each other.
    """
    sizes: dict[HeldOutPart, int] = {"test": n_test, "dev": n_dev}
    if documents is None:
        held_out = _choose_pairs(read, sizes, n_pairs, seed)
    else:
        held_out = _choose_documents(read, documents, sizes, n_pairs, seed)
    with atomic_folder(folder) as scratch:
        report = _distribute(read, documents, held_out, scratch, languages, n_pairs, seed)
        if not report.train:
            raise DataError(
                f"all {n_pairs:,} pairs are in dev or test, or too like them: nothing is left to train on; ask for less"
            )
        write_text(scratch / config_name(folder), _config(languages, report))
        write_text(scratch / REPORT, json.dumps(asdict(report), ensure_ascii=False, indent=1) + "\n")
    return report


def config_name(folder: Path) -> str:
    """Return the name of the folder's config: that of the folder, because a run is called as its config is."""
    return f"{folder.resolve().name}.yaml"


def _file_endings(languages: tuple[str, str]) -> tuple[str, str]:
    return ("src", "tgt") if languages[0] == languages[1] else languages


def _config(languages: tuple[str, str], report: SplitReport) -> str:
    """Return a config that trains on the parts; it stands beside them."""
    src, tgt = _file_endings(languages)
    named = [] if languages == ("src", "tgt") else [f"  src_lang: {languages[0]}", f"  tgt_lang: {languages[1]}"]
    held_out = [
        f"  {part}: {{src: {part}.{src}, tgt: {part}.{tgt}}}"
        for part, n in (("dev", report.dev), ("test", report.test))
        if n
    ]
    train = f"  train: [{{src: train.{src}, tgt: train.{tgt}}}]"
    lines = [
        "data:",
        *named,
        train,
        *held_out,
        "train:",
        "  budget: 30m  # of wall time; for a short trial: --set train.budget=1m",
    ]
    return "\n".join(lines) + "\n"


class HeldOut:
    """The pairs of dev and test, and which other pairs are like them."""

    def __init__(self, parts: dict[HeldOutPart, list[Pair]], documents: dict[str, HeldOutPart] | None = None) -> None:
        self.parts = parts
        self.documents = documents
        self._keys: list[dict[str, HeldOutPart]] = []  # of each side
        for side in SIDES:
            keys: dict[str, HeldOutPart] = {}
            for part in _PARTS:
                for key in _keys_of(parts[part], side):
                    keys.setdefault(key, part)
            keys.pop("", None)
            self._keys.append(keys)
        self._near = [NearTexts(list(keys)) for keys in self._keys]

    def likes(self, window: Sequence[Pair]) -> list[Like | None]:
        """Return for each pair why it must not be in train; likes in test come first, then the same sentences."""
        found: list[list[Like]] = [[] for _ in window]
        for side, same, nearly, known, near in zip(
            SIDES, REASONS[:2], REASONS[2:], self._keys, self._near, strict=True
        ):
            keys = _keys_of(window, side)
            for likes, key in zip(found, keys, strict=True):
                if key in known:
                    likes.append(Like(known[key], same))
            for i, text in near.find(keys):
                found[i].append(Like(known[text], nearly))
        return [min(likes, key=_importance) if likes else None for likes in found]


def _importance(like: Like) -> tuple[int, int]:
    return _PARTS.index(like.part), REASONS.index(like.reason)


def _keys_of(pairs: Sequence[Pair], side: str) -> list[str]:
    return loose_keys([squeezed(getattr(pair, side)) for pair in pairs]) if pairs else []


def _hash(seed: int, *texts: str) -> int:
    """Return 64 bits that depend on the seed and the texts alone."""
    joined = "\x00".join(texts).encode("utf-8")
    return int.from_bytes(blake2b(joined, digest_size=8, key=b"%d" % seed).digest(), "big")


def _choose_pairs(read: ReadPairs, sizes: dict[HeldOutPart, int], n_pairs: int, seed: int) -> HeldOut:
    """Choose the pairs whose sources have the smallest hashes, but none that is like a chosen one."""
    n_wanted, n_kept = sum(sizes.values()), 2 * sum(sizes.values()) + _SPARE
    while True:
        candidates, is_all = _smallest(read, n_kept, n_pairs, seed)
        chosen = _unlike_each_other(candidates)
        if len(chosen) >= n_wanted:
            break
        if is_all:
            raise DataError(
                f"of {n_pairs:,} pairs only {len(chosen):,} are unlike each other on both sides, but dev and test need "
                f"{n_wanted:,}; ask for fewer"
            )
        n_kept *= 4
    ordered = iter(chosen)
    return HeldOut({part: list(islice(ordered, sizes[part])) for part in _PARTS})


def _smallest(read: ReadPairs, n_kept: int, n_pairs: int, seed: int) -> tuple[list[Pair], bool]:
    """Return one pair for each of the n_kept sources with the smallest hashes, and whether there are no others.

    Blank sentences are not chosen. Of several pairs with a source, the one whose own hash is smallest.
    """
    best: dict[int, tuple[int, Pair]] = {}  # by the hash of the source
    largest: list[int] = []  # a heap of the negative hashes in best
    is_all = True
    with progress_bar(n_pairs, "choosing dev and test", "pair", delay=2.0) as bar:
        for window in windows(read(), MOST_TEXTS):
            bar.update(len(window))
            for pair, key, tgt_key in zip(window, _keys_of(window, "src"), _keys_of(window, "tgt"), strict=True):
                if not key or not tgt_key:
                    continue
                rank = _hash(seed, key)
                if rank not in best:
                    if len(best) == n_kept:
                        is_all = False
                        if rank > -largest[0]:
                            continue
                        del best[-heapq.heappop(largest)]
                    heapq.heappush(largest, -rank)
                candidate = _hash(seed, pair.src, pair.tgt), pair
                if rank not in best or candidate[0] < best[rank][0]:
                    best[rank] = candidate
    return [best[rank][1] for rank in sorted(best)], is_all


def _unlike_each_other(candidates: Sequence[Pair]) -> list[Pair]:
    """Return the candidates in order, without those that are like an earlier one that is returned.

    A block of candidates is compared with the chosen ones first, and only those that are left with each other: so a
    thousand variants of a sentence are compared with the first one, not each with each.
    """
    keys = [_keys_of(candidates, side) for side in SIDES]
    chosen: list[int] = []
    start = 0
    while start < len(candidates):
        block = range(start, min(start + max(_FIRST_BLOCK, len(chosen)), len(candidates)))
        start = block.stop
        known = _likes_among(keys, block, chosen)
        left = [index for index in block if index not in known]
        likes, added = _likes_among(keys, left, left), set[int]()
        for index in left:
            if added.isdisjoint(likes[index]):
                added.add(index)
                chosen.append(index)
    return [candidates[index] for index in chosen]


def _likes_among(keys: Sequence[Sequence[str]], indices: Sequence[int], others: Sequence[int]) -> dict[int, set[int]]:
    """Return for each of these indices that has any the others that are like it on either side, by their keys."""
    likes: dict[int, set[int]] = {}
    for side_keys in keys:
        owners: dict[str, list[int]] = {}
        for other in others:
            owners.setdefault(side_keys[other], []).append(other)
        near = NearTexts(list(owners))
        for window in windows(indices, MOST_TEXTS):
            for i, text in near.find([side_keys[index] for index in window]):
                likes.setdefault(window[i], set()).update(owners[text])
    return likes


def _choose_documents(
    read: ReadPairs, documents: ReadDocuments, sizes: dict[HeldOutPart, int], n_pairs: int, seed: int
) -> HeldOut:
    """Choose the documents with the smallest hashes, each part until it has enough pairs."""
    counts = Counter(documents())
    if counts.total() != n_pairs:
        raise DataError(f"{n_pairs:,} pairs, but {counts.total():,} document names; give one for each pair")
    ranked = iter(sorted(counts, key=lambda name: (_hash(seed, name), name)))
    chosen: dict[str, HeldOutPart] = {}
    for part in _PARTS:
        n = 0
        while n < sizes[part]:
            if (name := next(ranked, None)) is None:
                raise DataError(
                    f"the {len(counts):,} documents are too few or too large for dev and test; ask for fewer pairs"
                )
            chosen[name] = part
            n += counts[name]
    parts: dict[HeldOutPart, list[Pair]] = {part: [] for part in _PARTS}
    for pair, name in zip(read(), documents(), strict=True):
        if name in chosen:
            parts[chosen[name]].append(pair)
    return HeldOut(parts, chosen)


def _distribute(
    read: ReadPairs,
    documents: ReadDocuments | None,
    held_out: HeldOut,
    folder: Path,
    languages: tuple[str, str],
    n_pairs: int,
    seed: int,
) -> SplitReport:
    """Write every pair to train, dev, test or what is left out, and count them."""
    parts: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    missing = {(pair.src, pair.tgt): part for part, pairs in held_out.parts.items() for pair in pairs}
    names = documents() if documents is not None else repeat(None)
    with ExitStack() as stack:
        files = {
            part: tuple(
                stack.enter_context(open_output(folder / f"{part}.{language}")) for language in _file_endings(languages)
            )
            for part in ("train", *_PARTS)
        }
        rejected = stack.enter_context(open_output(folder / LEFT_OUT))
        rejected.write("\t".join(_COLUMNS) + "\n")
        bar = stack.enter_context(progress_bar(n_pairs, "splitting", "pair", delay=2.0))
        for window in windows(read(), MOST_TEXTS):
            for pair, like, name in zip(window, held_out.likes(window), islice(names, len(window)), strict=True):
                if held_out.documents is None:
                    part = missing.pop((pair.src, pair.tgt), None)
                else:
                    part = held_out.documents.get(name or "")
                    part = None if part == "dev" and like is not None and like.part == "test" else part
                if part is None and like is not None:
                    left_out[f"{like.part}: {like.reason}"] += 1
                    rejected.write(_left_out_line(pair, like))
                    continue
                parts[part or "train"] += 1
                if part is None or documents is not None:  # else dev and test keep their own order, written below
                    _write_pair(files[part or "train"], pair)
            bar.update(len(window))
        if documents is None:
            for part, pairs in held_out.parts.items():
                for pair in pairs:
                    _write_pair(files[part], pair)
    reasons = {f"{part}: {reason}": n for part in _PARTS for reason in REASONS if (n := left_out[f"{part}: {reason}"])}
    n_read = parts.total() + left_out.total()
    return SplitReport(
        n_read, parts["train"], parts["dev"], parts["test"], reasons, seed, by_document=documents is not None
    )


def _write_pair(files: Sequence[TextIO], pair: Pair) -> None:
    for file, text in zip(files, (pair.src, pair.tgt), strict=True):
        file.write((as_one_line(text) if "\n" in text or "\r" in text else text) + "\n")


def _left_out_line(pair: Pair, like: Like) -> str:
    columns = pair.file, str(pair.line), like.part, like.reason, pair.src, pair.tgt
    return "\t".join(map(as_column, columns)) + "\n"

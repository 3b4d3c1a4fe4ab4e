"""Turn a translation memory into clean train, dev and test text for a model, or say why it does not suit the model."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mtkit.bundle import BundleFiles, add_to_bundle, bundle_file
from mtkit.config.cleaning import CleanConfig
from mtkit.config.data import UNNAMED, CorpusFiles
from mtkit.console import counted, log
from mtkit.corpora.cleaning.clean import check_rules
from mtkit.corpora.cleaning.job import run_clean
from mtkit.corpora.cleaning.outputs import one_output
from mtkit.corpora.cleaning.sources import find_corpora, require_regular_files
from mtkit.corpora.split import REPORT, split
from mtkit.data.corpus import read_pairs
from mtkit.data.sides import Resemblance
from mtkit.engines.lexicon import learn_shortlist
from mtkit.engines.shortlist import SHORTLIST, shortlist_of
from mtkit.errors import DataError, UsageError
from mtkit.jobs.executors import InProcess
from mtkit.languages import SIDES, english_name
from mtkit.pair_files.pairs import Languages, Pair
from mtkit.quality.language import foreign_lines
from mtkit.text.scripts import is_in_another_script
from mtkit.tokens.new_pieces import can_have_more
from mtkit.tokens.tokenizer import Tokenizer
from mtkit.tokens.unseen_characters import UnknownCharacters
from mtkit.translation.direction import sides_of

LEAST_PAIRS = 100  # after cleaning: with fewer, the test set is too small to judge anything
_TEST, _DEV = (0.15, 500), (0.1, 300)  # the share of the clean pairs, and the most of them
_MARGIN = 20  # words in excess of chance that decide for a side
_LOOKED_AT = 300  # pairs, joined to one text, to detect its language
_MOST_NAMED = 8  # characters
_CLEAN, _PARTS = "clean.tsv", "parts"


@dataclass(frozen=True)
class Memory:
    """A memory that suits the model, in three parts that share no sentence."""

    n_read: int
    n_clean: int
    train: CorpusFiles
    dev: CorpusFiles
    test: CorpusFiles
    unseen: list[str]  # for each side with any: the characters that the model has no piece for, in words

    def pairs(self, part: str) -> list[Pair]:
        """Read the pairs of "train", "dev" or "test"."""
        return list(read_pairs([getattr(self, part)]))


def languages_of(base: BundleFiles) -> Languages | None:
    """Return the languages of the model; None if it does not record them."""
    langs = base.config.data.src_lang, base.config.data.tgt_lang
    return None if langs == UNNAMED else langs


def prepare_memory(paths: Sequence[Path], base: BundleFiles, folder: Path, *, gets_pieces: bool = False) -> Memory:
    """Read, check, clean and split the memory into the folder; a second call uses what the first has finished.

    gets_pieces: whether the tokenizers get new pieces, so that no one needs to hear of characters without one.
    Raises DataError for a memory in other languages than the model's, with swapped sides, or with too few pairs.
    """
    known = languages_of(base)
    corpora, langs = find_corpora(paths, ",".join(known) if known else None)
    require_regular_files(corpora)
    pairs = list(read_pairs(corpora))
    name = " ".join(map(str, paths))
    _require(len(pairs), name, "")
    _check_languages(pairs, base, name)
    unseen = _unseen(pairs, base, name, gets_pieces=gets_pieces)
    kept, parts = folder / _CLEAN, folder / _PARTS
    n_clean = sum(1 for _ in _read_clean(kept)) if kept.exists() else _clean(name, corpora, langs, folder)
    if not (parts / REPORT).exists():
        _split(name, kept, parts, n_clean)
    train, dev, test = (
        CorpusFiles(src=parts / f"{part}.src", tgt=parts / f"{part}.tgt") for part in ("train", "dev", "test")
    )
    return Memory(len(pairs), n_clean, train, dev, test, unseen)


def _clean(name: str, corpora: Sequence[CorpusFiles], langs: Languages, folder: Path) -> int:
    """Clean the memory into the folder and return the number of pairs left. Raises DataError if there are too few."""
    kept = folder / _CLEAN
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / _PARTS, ignore_errors=True)  # of a memory that has changed
    cfg = CleanConfig()
    check_rules(cfg, langs)
    result = run_clean(corpora, langs, cfg, [one_output([kept], None, corpora)], executor=InProcess())
    dropped = ", ".join(f"{n:,} {rule}" for rule, n in result.dropped.items() if n) or "none"
    log.info(f"{name}: cleaning keeps {result.n_kept:,} of {counted(result.n_pairs, 'pair')}; dropped: {dropped}")
    try:
        _require(
            result.n_kept, name, f" of {result.n_pairs:,} after cleaning (dropped: {dropped}; they are in {folder})"
        )
    except DataError:
        kept.unlink()
        raise
    return result.n_kept


def _split(name: str, kept: Path, parts: Path, n_pairs: int) -> None:
    """Split the clean pairs into train, dev and test. Raises DataError, and removes the pairs, if they are alike."""
    n_dev, n_test = (min(most, round(share * n_pairs)) for share, most in (_DEV, _TEST))
    try:
        report = split(lambda: _read_clean(kept), parts, UNNAMED, n_pairs=n_pairs, n_dev=n_dev, n_test=n_test, seed=1)
    except DataError as error:
        kept.unlink()
        raise DataError(
            f"{name}: too many of its segments are like each other to set {n_dev + n_test} different ones aside "
            "to judge by; use it as decode.memory instead, which gives the translations of equal segments"
        ) from error
    left_out = sum(report.left_out.values())
    log.info(
        f"{name}: {report.train:,} pairs to train on, {report.dev:,} to choose by (dev), {report.test:,} to judge "
        f"by (test); {left_out:,} are too like these to train on"
    )


def is_prepared(folder: Path) -> bool:
    """Return whether the folder has a memory; it has none if the memory was unsuitable."""
    return (folder / _CLEAN).exists()


def has_grown(paths: Sequence[Path], base: BundleFiles, folder: Path) -> bool:
    """Return whether a memory has more than half of the pairs of the one that is prepared in the folder."""
    known = languages_of(base)
    corpora, _ = find_corpora(paths, ",".join(known) if known else None)
    pairs = {(pair.src, pair.tgt) for pair in read_pairs(corpora)}
    kept = [(pair.src, pair.tgt) in pairs for pair in _read_clean(folder / _CLEAN)]
    return sum(kept) > len(kept) / 2


def _read_clean(path: Path) -> Iterator[Pair]:
    return read_pairs([CorpusFiles(tsv=path)])


def _require(n_pairs: int, name: str, what: str) -> None:
    if n_pairs < LEAST_PAIRS:
        raise DataError(
            f"{name}: only {counted(n_pairs, 'pair')}{what}, but an adaptation needs at least {LEAST_PAIRS} different "
            "ones to train on and to judge by; for a few terms, use decode.terminology instead"
        )


def _check_languages(pairs: Sequence[Pair], base: BundleFiles, name: str) -> None:
    """Raise DataError if the sides are swapped, or if one is in another language than the model's."""
    langs = languages_of(base)
    direction = "-".join(langs) if langs else "its source into its target language"
    sides = sides_of(base)
    if sides is not None:
        src, tgt = (Resemblance(sides).add(dict.fromkeys(getattr(pair, side) for pair in pairs)) for side in SIDES)
        if src.verdict(_MARGIN) == "tgt" and tgt.verdict(_MARGIN) == "src":
            raise DataError(
                f"{name}: its sides are swapped: {base.folder} translates {direction}, but the first side of this "
                "memory is in the target language; exchange the two sides, or use a model of the other direction"
            )
    if langs is None:
        return
    for side, lang, other in (("src", *langs), ("tgt", *reversed(langs))):
        text = " ".join(dict.fromkeys(getattr(pair, side) for pair in pairs[:_LOOKED_AT]))
        found = ""
        with suppress(UsageError):  # without py3langid, no language can be detected
            found = foreign_lines([text], lang, other, [1]).get(0, "").split(" ")[0]
        if not found and is_in_another_script(text, lang):
            found = "another script"
        if found:
            side_name = "source" if side == "src" else "target"
            raise DataError(
                f"{name}: the {side_name} side is in {english_name(found) or found}, but {base.folder} translates "
                f"{direction}; choose a model of these languages, or the right languages of the file"
            )


def _unseen(pairs: Sequence[Pair], base: BundleFiles, name: str, *, gets_pieces: bool) -> list[str]:
    """Return, and log, for each side the characters for which the model's tokenizer has only bytes or <unk>."""
    described = []
    sides: tuple[tuple[str, str, Tokenizer], ...] = (
        ("src", "source", base.src_tokenizer),
        ("tgt", "target", base.tgt_tokenizer),
    )
    for side, side_name, tokenizer in sides:
        characters = UnknownCharacters(tokenizer)
        for pair in pairs:
            characters.add(getattr(pair, side))
        unseen = [one for one in characters.all() if one.treatment in ("unknown", "bytes")]
        if unseen:
            can_help = not gets_pieces and all(can_have_more(one) for *_, one in sides)
            remedy = "; --new-pieces 200 gives the frequent ones pieces" if can_help else ""
            listed = ", ".join(f"{one.text} ({one.count:,} times)" for one in unseen[:_MOST_NAMED])
            more = f" and {len(unseen) - _MOST_NAMED:,} others" if len(unseen) > _MOST_NAMED else ""
            described.append(f"{side_name} side: {listed}{more}")
            has_bytes = unseen[0].treatment == "bytes"
            so = "sees them only as bytes and learns them badly" if has_bytes else "cannot learn them"
            log.warning(
                f"{name}: the tokenizer of {base.folder} has no pieces for {counted(len(unseen), 'character')} of the "
                f"{side_name} side, so the model {so}: {listed}{more}{remedy}"
            )
    return described


def add_shortlist(tuned: BundleFiles, base: BundleFiles, pairs: Sequence[Pair]) -> None:
    """Add a shortlist to a tuned bundle if the base has one, as models of browsers do: the base's, and the memory's."""
    if bundle_file(base, SHORTLIST) is None or bundle_file(tuned, SHORTLIST) is not None:
        return
    learned = learn_shortlist(pairs, len(pairs), tuned.src_tokenizer, tuned.tgt_tokenizer)
    add_to_bundle(tuned, SHORTLIST, shortlist_of(base).joined(learned).save)

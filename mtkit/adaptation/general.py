"""Keep what a model knows: its own translations of general text to train on, and other text to measure the loss by."""

import math
import time
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path

from mtkit.adaptation.base_translations import BaseTranslations
from mtkit.bundle import BundleFiles
from mtkit.config.data import CorpusFiles
from mtkit.console import counted, log, progress_bar
from mtkit.corpora.cleaning.sources import find_corpora
from mtkit.data.corpus import count_pairs, evenly_spaced, first_missing, read_pairs
from mtkit.errors import DataError
from mtkit.files import atomic_folder, write_text
from mtkit.pair_files.lines import as_one_line, read_lines
from mtkit.pair_files.one_file import EXTENSIONS, extension
from mtkit.pair_files.pairs import Languages
from mtkit.translation.translator import Translator

LEAST_LINES = 50
# The share of the general text, and the most lines of it. The loss that they measure varies: on 500 lines it seemed to
# be 0.1 BLEU, on 600 others 1.5, and on 2,000 of a test set 1.2.
_DEV, _TEST = (0.25, 1000), (0.3, 1000)
_DEV_BESIDE_OTHERS = (0.5, 1000)  # other text gives enough to train on
# Pairs of the base's training text, which may be large. Tuning should not see the same ones often: five passes over
# 28,000 of 149,231 pairs cost general text 2.3 BLEU on dev, and less than one pass over all of them 1.3.
_MOST_OF_BASE = 200_000
_AT_ONCE = 64  # sentences between looks at the clock
_HAS_REFERENCES = "references"  # the file that says so, and what the text is
GIVEN, OF_BASE = "general text", "the base's dev text"


@dataclass(frozen=True)
class General:
    """General text: what to train on besides the memory, and what to measure the loss by."""

    mix: CorpusFiles  # sources with the model's own translations, or with references
    n_mix: int
    dev: CorpusFiles | None  # None: the memory's own sources are all there is
    test: CorpusFiles | None
    has_references: bool  # else the targets of dev and test are empty
    name: str = GIVEN  # or OF_BASE


def text_of(base: BundleFiles) -> tuple[list[CorpusFiles], list[CorpusFiles]]:
    """Return the dev and the training text of the base's config, as far as it is here and has the tag in decode."""

    def usable(texts: Iterable[CorpusFiles]) -> list[CorpusFiles]:
        return [one for one in texts if one.tag == base.config.decode.tag and first_missing([one]) is None]

    return usable(base.config.data.dev), usable(base.config.data.train)


def prepare_general(
    paths: Sequence[Path],
    memory_sources: Sequence[str],
    held_out: Set[str],
    langs: Languages | None,
    translator: Translator,
    kept: BaseTranslations,
    folder: Path,
    *,
    n_mix: int,
    seconds: float,
    of_base: tuple[Sequence[CorpusFiles], Sequence[CorpusFiles]] = ((), ()),
) -> General:
    """Write the general text to the folder, which appears when it is complete; a second call reads it.

    paths: files with both sides, text files two by two, and perhaps one more text file, in the source language. If it
    is alone, it gives dev and test, too; otherwise it is only mixed in. of_base: see `text_of`, for use without paths.
    Its dev text gives dev and test, too; if it has too few lines, only memory_sources are mixed in.
    memory_sources, held_out: the sources of the memory to train on, and the others; general text leaves all out.
    n_mix, seconds: the most sentences to translate for training, and the most time for that. The base's training text
    keeps its references, from which the base has learned. kept: what the translator has translated before.
    """
    if not folder.exists():
        known = {*memory_sources, *held_out}
        pairs, has_references, more = _read(paths, langs) if paths else (_pairs(of_base[0]), True, [])
        pairs = list(dict.fromkeys((src, tgt) for src, tgt in pairs if src.strip() and src not in known))
        if paths and len(pairs) < LEAST_LINES:
            raise DataError(
                f"{' '.join(map(str, paths))}: only {counted(len(pairs), 'line')} of general text that the memory does "
                f"not have, but measuring the loss needs at least {LEAST_LINES}"
            )
        is_separate = len(pairs) >= LEAST_LINES
        with atomic_folder(folder) as scratch:
            is_trained_on = is_separate and not paths and bool(of_base[1])
            for_dev = _DEV_BESIDE_OTHERS if is_trained_on or len(more) >= len(pairs) else _DEV
            rest = (
                _set_aside(pairs, scratch, for_dev)
                if is_separate
                else [(src, "") for src in dict.fromkeys(memory_sources)]
            )
            if is_separate:
                known |= {src for part in ("dev", "test") for src in read_lines(scratch / f"{part}.src")}
            known_or_mixed = known.union(src for src, _ in rest)
            more = [line for line in dict.fromkeys(more) if line.strip() and line not in known_or_mixed]
            rest += [(src, "") for src in evenly_spaced(more, max(0, n_mix - len(rest)))]
            if is_trained_on:
                rest += [pair for pair in _pairs(of_base[1], _MOST_OF_BASE) if pair[0] not in known]
            if has_references and is_separate:
                write_text(scratch / _HAS_REFERENCES, GIVEN if paths else OF_BASE)
            if not is_trained_on:
                rest = _mix(rest, n_mix, translator, seconds, kept)
            _write(scratch, "mix", rest)
    mix = folder / "mix.src", folder / "mix.tgt"
    dev, test = (_corpus(folder, part) if (folder / f"{part}.src").exists() else None for part in ("dev", "test"))
    n_translated = sum(1 for _ in read_lines(mix[0]))
    about = folder / _HAS_REFERENCES
    name = about.read_text(encoding="utf-8") if about.exists() else ""
    return General(_corpus(folder, "mix"), n_translated, dev, test, about.exists(), name or GIVEN)


def _read(paths: Sequence[Path], langs: Languages | None) -> tuple[list[tuple[str, str]], bool, list[str]]:
    """Return the pairs of the general text, whether they have translations (otherwise ""), and further sources.

    A text file that is left over, when the others are taken two by two, has sources.
    """
    texts = [path for path in paths if extension(path) not in (*EXTENSIONS, ".zip", ".yaml", ".yml")]
    alone = texts[-1] if len(texts) % 2 else None
    sources = [] if alone is None else list(read_lines(alone))
    rest = [path for path in paths if path is not alone]
    if not rest:
        return [(line, "") for line in sources], False, []
    corpora, _ = find_corpora(rest, ",".join(langs) if langs else None)
    if len(paths) > 1:
        taken = [f"{' with '.join(map(str, corpus.paths))} as pairs" for corpus in corpora]
        taken += [] if alone is None else [f"{alone} as text in the source language"]
        log.info(f"general text: {'; '.join(taken)}")
    return _pairs(corpora), True, sources


def _pairs(corpora: Sequence[CorpusFiles], most: int | None = None) -> list[tuple[str, str]]:
    """Return the pairs with text on both sides; of more than `most` pairs, every second or third and so on."""
    step = math.ceil(count_pairs(corpora) / most) if most else 1
    pairs = ((pair.src, pair.tgt) for pair in islice(read_pairs(corpora), 0, None, max(1, step)))
    return [pair for pair in pairs if pair[0].strip() and pair[1].strip()]


def _set_aside(pairs: list[tuple[str, str]], folder: Path, dev: tuple[float, int]) -> list[tuple[str, str]]:
    """Write dev and test, and return the other pairs, without the sources of dev and test. dev: as `_DEV`."""
    rest = pairs
    for part, (share, most) in (("dev", dev), ("test", _TEST)):
        chosen = evenly_spaced(rest, min(most, round(share * len(pairs))))
        taken = {src for src, _ in chosen}
        rest = [pair for pair in rest if pair[0] not in taken]
        _write(folder, part, chosen)
    return rest


def _mix(
    pairs: Sequence[tuple[str, str]], n: int, translator: Translator, seconds: float, kept: BaseTranslations
) -> list[tuple[str, str]]:
    """Return up to n of the sources with the model's translations, or with their references where it has none.

    seconds: the most time for translating. kept: the translations of earlier calls, to which this one adds its own.
    """
    untranslated = {*kept.missing([src for src, _ in pairs])}
    chosen = [pair for pair in pairs if pair[0] not in untranslated][:n]
    chosen += evenly_spaced([pair for pair in pairs if pair[0] in untranslated], n - len(chosen))
    started = time.monotonic()
    new = dict(_translated(kept.missing([src for src, _ in chosen]), translator, seconds))
    kept.add([*new], [*new.values()], time.monotonic() - started)
    mixed = dict.fromkeys((src, kept.get(src, reference)) for src, reference in chosen)
    return [pair for pair in mixed if pair[1].strip()]


def _translated(sources: Sequence[str], translator: Translator, seconds: float) -> Iterator[tuple[str, str]]:
    """Yield the sources with the model's translations, without those that look broken, until the time is over."""
    until = time.monotonic() + seconds
    in_time = takewhile(lambda _: time.monotonic() <= until, sources)
    n_translated = 0  # a bar that is not shown does not count
    with progress_bar(len(sources), "translating general text", "sentence") as bar:
        for translation, src in zip(translator.stream(in_time, window=_AT_ONCE), sources, strict=False):
            n_translated += 1
            bar.update()
            if translation.text.strip() and not translation.faults:
                yield src, translation.text
        if n_translated < len(sources):
            log.info(f"translated {n_translated:,} of {len(sources):,} general sentences in the time for them")


def _write(folder: Path, part: str, pairs: Sequence[tuple[str, str]]) -> None:
    for index, side in enumerate(("src", "tgt")):
        write_text(folder / f"{part}.{side}", "".join(f"{as_one_line(pair[index])}\n" for pair in pairs))


def _corpus(folder: Path, part: str) -> CorpusFiles:
    return CorpusFiles(src=folder / f"{part}.src", tgt=folder / f"{part}.tgt")

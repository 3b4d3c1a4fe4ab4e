"""A text in one language in, sentence pairs to learn from out: what a model makes of it, without the unusable.

Back-translation gives target text a source (Sennrich et al. 2016), forward-translation gives source text a target. What
it does is a job of `file_job`: resumable, in bounded memory. Its records, one a line of the text, become the corpus.
"""

import json
import random
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self

from mtkit.bundle import SHAPING_FILES, BundleFiles
from mtkit.config.schema import CorpusFiles, DecodeConfig, TrainCorpus
from mtkit.config.yaml_text import format_yaml
from mtkit.console import progress_bar
from mtkit.data.corpus import as_one_line, open_output
from mtkit.engines.shortlist import SHORTLIST
from mtkit.errors import UsageError
from mtkit.files import sha256_file
from mtkit.languages import WITHOUT_SPACES, primary_code
from mtkit.quality.faults import find_faults
from mtkit.translation.candidates import Candidate, Translation
from mtkit.translation.file_job import JobResult, TranslateWindow, run_job
from mtkit.translation.translator import Translator, n_best_problem
from mtkit.version import __version__

Direction = Literal["back", "forward"]

_DROPPED = 0.1  # share of words that noise leaves out, and
_FARTHEST = 3  # places that it moves a word at most: Edunov et al. 2018, section 3
_FIRST_NOT_LATIN = "\u0250"
_LETTERS_ABOVE = "\N{THAI CHARACTER SARA AM}\N{LAO VOWEL SIGN AM}"  # marks that Unicode counts among the letters
_STACKERS = "\N{KHMER SIGN COENG}\N{MYANMAR SIGN VIRAMA}"  # what follows stands below what came before


@dataclass(frozen=True)
class Translated:
    """One line of a text with those of its translations that can be learnt from."""

    text: str
    translations: list[str]  # best first, no two alike
    reason: str = ""  # why there is none: blank, too long, or a kind of fault such as loop
    refused: str = ""  # the best translation, if there is none

    def to_json(self) -> str:
        """One line of text."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, record: str) -> Self:
        """What `to_json` gave."""
        return cls(**json.loads(record))


class UsableTranslations:
    """Translates windows of lines, and tells what of it can be learnt from.

    Left out are blank lines, lines too long to be translated in one piece, and translations that look broken by the
    rules of `suspects`, unfinished ones included. What decode.on_suspect says about these is done first.
    """

    def __init__(self, translator: Translator, *, n_best: int = 1, keep_suspect: bool = False) -> None:
        """n_best: translations a line, at most the beam size; keep_suspect: leave out only the empty ones."""
        self.translator = translator
        self.keep_suspect = keep_suspect
        self.session = translator.session(n_best=n_best)

    def of(self, lines: Sequence[str], first_line: int) -> list[Translated]:
        """What became of each line; first_line: the number of the first."""
        texts = [_one_column(line) for line in lines]
        _, owners = self.translator.segments(texts, self.translator.decode)
        n_segments = Counter(owners)
        whole = [row for row in range(len(lines)) if n_segments[row] == 1]
        found: dict[int, Translation] = {}
        if whole:
            translations = self.session.translate([texts[row] for row in whole], first_line)
            found = dict(zip(whole, translations, strict=True))
        return [
            self._looked_at(text, found[row].n_best)
            if row in found
            else Translated(text, [], "too long" if n_segments[row] else "blank")
            for row, text in enumerate(texts)
        ]

    def _looked_at(self, text: str, candidates: Sequence[Candidate]) -> Translated:
        tgt_lang, usable, reason = self.translator.tgt_lang, dict[str, None](), ""
        for candidate in candidates:
            faults = find_faults(text, candidate.text, finished=candidate.finished, tgt_lang=tgt_lang)
            if self.keep_suspect and candidate.text.strip():
                faults = ()
            if not faults:
                usable[_one_column(candidate.text)] = None
            reason = reason or (faults[0].kind if faults else "")
        if usable:
            return Translated(text, list(usable))
        return Translated(text, [], reason, _one_column(candidates[0].text))


def counts_of(made: Sequence[Translated]) -> Counter[str]:
    """Lines with a usable translation ("lines"), their pairs ("pairs"), and the other lines by reason."""
    counts = Counter(line.reason for line in made if not line.translations)
    counts.update(lines=sum(bool(line.translations) for line in made))
    counts.update(pairs=sum(len(line.translations) for line in made))
    return counts


def summary(n_lines: int, counts: Mapping[str, int]) -> str:
    """What became of the lines, for people."""
    reasons = {reason: n for reason, n in counts.items() if reason not in ("lines", "pairs") and n}
    left_out = ", ".join(f"{n:,} {reason}" for reason, n in sorted(reasons.items(), key=lambda item: -item[1]))
    kept, pairs = counts.get("lines", 0), counts.get("pairs", 0)
    return f"{pairs:,} pairs of {kept:,} of {n_lines:,} lines" + (f" (left out: {left_out})" if left_out else "")


def identity_of(members: Sequence[BundleFiles], decode: DecodeConfig) -> dict[str, Any]:
    """All of the models and their settings that translations depend on, as JSON."""
    shortlists = [files.manifest["sha256"].get(SHORTLIST) for files in members]
    return {
        "models": [{name: files.manifest["sha256"][name] for name in SHAPING_FILES} for files in members],
        "decode": decode.model_dump(mode="json", exclude={"workers", "threads"}),
        "terminology": None if decode.terminology is None else sha256_file(decode.terminology),
        **({"shortlists": shortlists} if decode.shortlist else {}),
    }


@dataclass(frozen=True)
class Synthesis:
    """How a text becomes a corpus."""

    direction: Direction  # back: the text is the corpus' target side
    n_best: int = 1  # pairs a line, at most
    noise: bool = False  # whether the synthetic side is disturbed
    keep_suspect: bool = False  # whether translations that look broken stay
    rejected: Path | None = None  # where to list what is left out: line number, reason, text, translation


def synthesize(
    text: Path,
    corpus: CorpusFiles,
    translator: Translator,
    members: Sequence[BundleFiles],
    settings: Synthesis,
    *,
    restart: bool = False,
) -> JobResult:
    """Write the corpus' files: pairs of the text and its translations, in the text's order.

    members: the bundles that the translator is made of. Goes on where an interrupted call with the same settings
    stopped, unless told to restart; raises MtkitError as `run_job` does. The counts are those of `counts_of`.
    """
    output = corpus.tsv or corpus.src
    assert output is not None  # the schema sees to it
    _check_places(text, corpus, settings.rejected)
    if problem := n_best_problem(settings.n_best, translator.decode):
        raise UsageError(problem)
    identity = {
        **identity_of(members, translator.decode),
        "engine": translator.engine.name,
        "arithmetic": translator.engine.arithmetic,
        "n_best": settings.n_best,
        "mtkit": __version__,
        **({"keep_suspect": True} if settings.keep_suspect else {}),
    }
    usable = UsableTranslations(translator, n_best=settings.n_best, keep_suspect=settings.keep_suspect)

    def finish(records: Iterator[str]) -> None:
        seed = translator.decode.seed if settings.noise else None
        made = (Translated.from_json(record) for record in records)
        lang = translator.tgt_lang
        write_corpus(made, corpus, settings.direction, noise_seed=seed, lang=lang, rejected=settings.rejected)

    return run_job(
        text, output, window_of(usable.of), identity, window_lines=translator.window, restart=restart, finish=finish
    )


def as_entries(corpora: Sequence[TrainCorpus]) -> str:
    """The corpora as YAML, indented as they stand below data.train."""
    given = [corpus.model_dump(mode="json", exclude_none=True) for corpus in corpora]
    return textwrap.indent(format_yaml(given), "    ")


def window_of(translate: Callable[[Sequence[str], int], list[Translated]]) -> TranslateWindow:
    """The function as `run_job` wants it: its results as records, and counted."""

    def translate_window(lines: Sequence[str], first_line: int) -> tuple[list[str], dict[str, int]]:
        made = translate(lines, first_line)
        return [line.to_json() for line in made], dict(counts_of(made))

    return translate_window


def write_corpus(
    made: Iterator[Translated],
    corpus: CorpusFiles,
    direction: Direction,
    *,
    noise_seed: int | None = None,
    lang: str | None = None,
    rejected: Path | None = None,
) -> None:
    """Write every pair, and the lines without one to `rejected`; the files appear when all is written.

    noise_seed: disturb the synthetic side, whose language is lang.
    """
    with ExitStack() as stack:
        write_pair = stack.enter_context(_pair_writer(corpus))
        refuse = stack.enter_context(open_output(rejected)).write if rejected else None
        bar = stack.enter_context(progress_bar(None, "writing", "line"))
        for number, line in enumerate(made, start=1):
            for translation in line.translations:
                synthetic = translation if noise_seed is None else noised(translation, noise_seed, lang)
                write_pair(*((synthetic, line.text) if direction == "back" else (line.text, synthetic)))
            if refuse and not line.translations:
                refuse(f"{number}\t{line.reason}\t{line.text}\t{line.refused}\n")
            bar.update()


def noised(text: str, seed: int, lang: str | None = None) -> str:
    """The text's words, a tenth of them left out and each moved a little; the same text always in the same way.

    Of a language that writes no spaces between words, its characters (see `_characters`). It is the noise that Edunov
    et al. (2018) add to beam output, but for the words that they blank: model.word_dropout does that.
    """
    by_character = primary_code(lang) in WITHOUT_SPACES
    words = _characters(text) if by_character else text.split()
    rng = random.Random(f"{seed}\n{text}")
    kept = [word for word in words if rng.random() >= _DROPPED] or words
    # A word whose place is raised by less than n + 1 is overtaken by at most n words (Lample et al. 2018).
    places = [place + rng.uniform(0, _FARTHEST + 1) for place in range(len(kept))]
    return ("" if by_character else " ").join(kept[place] for place in sorted(range(len(kept)), key=places.__getitem__))


def _characters(text: str) -> list[str]:
    """Characters with what stands above and below them; what is Latin, or a number, is not taken apart: GPU, 3.5%."""
    found: list[str] = []
    for character in text:
        if found and (
            unicodedata.category(character).startswith("M")
            or character in _LETTERS_ABOVE
            or found[-1][-1] in _STACKERS
            or (_is_latin(found[-1][0]) and _is_latin(character))
        ):
            found[-1] += character
        else:
            found.append(character)
    return found


def _is_latin(character: str) -> bool:
    """Whether it may be part of a word in Latin script, or of a number."""
    if character < _FIRST_NOT_LATIN:
        return not character.isspace()
    is_apostrophe = character == "\N{RIGHT SINGLE QUOTATION MARK}"
    return is_apostrophe or character.isdecimal() or "LATIN" in unicodedata.name(character, "")


@contextmanager
def _pair_writer(corpus: CorpusFiles) -> Iterator[Callable[[str, str], object]]:
    if corpus.tsv is not None:
        with open_output(corpus.tsv) as file:
            yield lambda src, tgt: file.write(f"{src}\t{tgt}\n")
        return
    assert corpus.src is not None and corpus.tgt is not None  # the schema sees to it
    with open_output(corpus.src) as src_file, open_output(corpus.tgt) as tgt_file:
        yield lambda src, tgt: (src_file.write(f"{src}\n"), tgt_file.write(f"{tgt}\n"))


def _one_column(text: str) -> str:
    """The text as it can stand in one column of a TSV."""
    return as_one_line(text).replace("\t", " ").strip()


def _check_places(text: Path, corpus: CorpusFiles, rejected: Path | None) -> None:
    places = [path for path in (corpus.src, corpus.tgt, corpus.tsv, rejected) if path is not None]
    for path in places:
        if path.exists() and not path.is_file():
            raise UsageError(f"{path}: not a file that could be written; give the name of one")
    resolved = [path.resolve() for path in (text, *places)]
    if len(set(resolved)) < len(resolved):
        raise UsageError("input and outputs must be different files: " + ", ".join(map(str, (text, *places))))

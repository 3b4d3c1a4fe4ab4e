"""Make a training corpus from text in one language by translating it and dropping unusable translations.

Back-translation translates target text into the source side (Sennrich et al. 2016), forward-translation source text
into the target side. The work is a `line_job`, resumable and in bounded memory: it writes one record per line of the
text, and the corpus is made from the records.
"""

import json
import random
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

from mtkit.bundle import SHAPING_FILES, BundleFiles
from mtkit.config.data import CorpusFiles, TrainCorpus
from mtkit.config.decoding import DecodeConfig
from mtkit.config.reading.yaml_text import format_yaml
from mtkit.console import counted, progress_bar
from mtkit.engines.shortlist import SHORTLIST
from mtkit.errors import UsageError
from mtkit.files import parse_json, sha256_file
from mtkit.jobs.line_job import LineJobResult, Text, Work, run_line_job
from mtkit.languages import WITHOUT_SPACES, primary_code
from mtkit.pair_files.compression import open_outputs
from mtkit.pair_files.corpus_files import check_distinct
from mtkit.pair_files.lines import as_column, read_lines
from mtkit.text.characters import belongs_to_previous
from mtkit.translation.candidates import Translation
from mtkit.translation.direction import check_source_text
from mtkit.translation.loading import SharedTranslator
from mtkit.translation.pieces import Piece
from mtkit.translation.translator import Translator, n_best_problem

Direction = Literal["back", "forward"]

# Noise of Edunov et al. (2018), section 3
_DROP_RATE = 0.1  # share of words that noise drops
_MAX_MOVE = 3  # places by which it moves a word at most
_FIRST_NOT_LATIN = "\u0250"
_STACKERS = "\N{KHMER SIGN COENG}\N{MYANMAR SIGN VIRAMA}"  # the next character is written below the previous one


@dataclass(frozen=True)
class Translated:
    """One line of a text with its usable translations."""

    text: str
    translations: list[str]  # best first, all different
    reason: str = ""  # why there is no usable one: blank, too long, or a kind of fault such as loop
    refused: str = ""  # the best translation, if none is usable

    def to_json(self) -> str:
        """Return the record as one line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, record: str) -> Self:
        """Read what `to_json` returned."""
        return cls(**parse_json(record))


class UsableTranslations:
    """Translates windows of lines and selects the translations that are usable for training.

    Blank lines, lines that are too long for the model, and translations with faults (see `Checks`),
    unfinished ones included, are not. decode.on_suspect applies first.
    """

    def __init__(self, translator: Translator, *, n_best: int = 1, keep_suspect: bool = False) -> None:
        """n_best: translations per line, at most the beam size; keep_suspect: drop only empty translations."""
        self.translator = translator
        self.keep_suspect = keep_suspect
        self.session = translator.session(n_best=n_best)

    def translate(self, lines: Sequence[str], first_line: int) -> list[Translated]:
        """Translate lines; first_line: line number of the first one."""
        texts = [_one_column(line) for line in lines]
        pieces = self.translator.pieces(texts)
        reasons = [
            "too long" if line[0].is_of_long else "blank" * all(p.is_blank and not p.is_settled for p in line)
            for line in pieces
        ]
        usable = [row for row, reason in enumerate(reasons) if not reason]
        translations: dict[int, Translation] = {}
        if usable:
            cut = [pieces[row] for row in usable]
            results = self.session.translate_cut([texts[row] for row in usable], cut, first_line)
            translations = dict(zip(usable, results, strict=True))
        return [
            self._usable(text, translations[row], pieces[row])
            if row in translations
            else Translated(text, [], reasons[row])
            for row, text in enumerate(texts)
        ]

    def _usable(self, text: str, translation: Translation, pieces: Sequence[Piece]) -> Translated:
        usable, reason = dict[str, None](), ""
        src_ids = [token for piece in pieces for token in self.translator.src_tokenizer.untagged(piece.ids[0])]
        for index, candidate in enumerate(translation.n_best):
            faults = () if index else translation.faults  # those of its segments, too
            faults = faults or self.translator.checks.faults(
                text, candidate.text, (src_ids, candidate.ids), finished=candidate.finished
            )
            if self.keep_suspect and candidate.text.strip():
                faults = ()
            if not faults:
                usable[_one_column(candidate.text)] = None
            reason = reason or (faults[0].kind if faults else "")
        if usable:
            return Translated(text, list(usable))
        return Translated(text, [], reason, _one_column(translation.text))


def counts_of(translated: Sequence[Translated]) -> Counter[str]:
    """Count lines with a usable translation ("lines"), their pairs ("pairs"), and the other lines by reason."""
    counts = Counter(line.reason for line in translated if not line.translations)
    counts.update(lines=sum(bool(line.translations) for line in translated))
    counts.update(pairs=sum(len(line.translations) for line in translated))
    return counts


def summary(n_lines: int, counts: Mapping[str, int]) -> str:
    """Return a one-line summary of the counts for the log."""
    reasons = {reason: n for reason, n in counts.items() if reason not in ("lines", "pairs") and n}
    left_out = ", ".join(f"{n:,} {reason}" for reason, n in sorted(reasons.items(), key=lambda item: -item[1]))
    kept, pairs = counts.get("lines", 0), counts.get("pairs", 0)
    return f"{counted(pairs, 'pair')} from {kept:,} of {counted(n_lines, 'line')}" + (
        f" (left out: {left_out})" if left_out else ""
    )


def identity_of(members: Sequence[BundleFiles], decode: DecodeConfig) -> dict[str, Any]:
    """Return everything about models and settings that translations depend on, as JSON."""
    shortlists = [files.manifest["sha256"].get(SHORTLIST) for files in members]
    return {
        "models": [{name: files.manifest["sha256"][name] for name in SHAPING_FILES} for files in members],
        "decode": decode.model_dump(mode="json", exclude={"workers", "threads"}),
        **{name: path and sha256_file(path) for name, path in decode.files.items()},
        **({"shortlists": shortlists} if decode.shortlist else {}),
    }


@dataclass(frozen=True)
class Synthesis:
    """Settings for making a corpus from a text."""

    direction: Direction  # back: the text becomes the corpus' target side
    n_best: int = 1  # pairs a line, at most
    noise: bool = False  # add noise to the synthetic side
    keep_suspect: bool = False  # keep translations with faults
    rejected: Path | None = None  # where to list lines left out: line number, reason, text, translation


def synthesize(
    text: Path, corpus: CorpusFiles, shared: SharedTranslator, settings: Synthesis, *, restart: bool = False
) -> LineJobResult:
    """Write the files of the corpus: pairs of the text's lines and their translations, in the text's order.

    Resumes an interrupted call with the same settings, unless restart is True. Raises MtkitError as `run_line_job`
    does. The counts are those of `counts_of`.
    """
    translator, members = shared.translator, shared.members
    check_paths([text, *filter(None, translator.decode.files.values())], corpus, settings.rejected)
    if problem := n_best_problem(settings.n_best, translator.decode):
        raise UsageError(problem)
    check_source_text(str(text), read_lines(text), members[0])
    identity = {
        **identity_of(members, translator.decode),
        "n_best": settings.n_best,
        **({"keep_suspect": True} if settings.keep_suspect else {}),
    }
    work = partial(usable_work, shared.make, settings)
    return make_corpus(Text.of_file(text), corpus, shared, work, identity, settings, restart=restart)


def make_corpus(
    text: Text,
    corpus: CorpusFiles,
    shared: SharedTranslator,
    load: Callable[[], Work],
    identity: Mapping[str, Any],
    settings: Synthesis,
    *,
    done: Callable[[LineJobResult], None] = lambda _: None,
    **how: Any,
) -> LineJobResult:
    """Run a `line_job` that makes records of a text's lines (see `work_of`), and write the corpus from them.

    load, identity: as for `run_line_job`; the engine is added. done: called when the corpus is written, before the
    job is over. how: other arguments of `run_line_job`.
    """
    output = corpus.tsv or corpus.src
    assert output is not None  # the schema requires one of them
    translator = shared.translator
    engine = translator.engine

    def finish(records: Iterator[str], result: LineJobResult) -> None:
        seed = translator.decode.seed if settings.noise else None
        write_corpus(map(Translated.from_json, records), corpus, settings, noise_seed=seed, lang=translator.tgt_lang)
        done(result)

    return run_line_job(
        text,
        output,
        load,
        {**identity, "engine": engine.name, "arithmetic": engine.arithmetic},
        shared.executor,
        window_lines=translator.window,
        finish=finish,
        **how,
    )


def usable_work(make_translator: Callable[[], Translator], settings: Synthesis) -> Work:
    """Load the work of a job that writes the usable translations of each line."""
    usable = UsableTranslations(make_translator(), n_best=settings.n_best, keep_suspect=settings.keep_suspect)
    return work_of(usable.translate)


def as_entries(corpora: Sequence[TrainCorpus]) -> str:
    """Return the corpora as YAML entries, indented as below data.train."""
    entries = [
        corpus.model_dump(mode="json", exclude_defaults=True) | ({"tgt": None} if corpus.is_untranslated else {})
        for corpus in corpora
    ]
    return textwrap.indent(format_yaml(entries), "    ")


def work_of(translate: Callable[[Sequence[str], int], list[Translated]]) -> Work:
    """Adapt a function to `run_line_job`: return its results as records, with their counts."""

    def work(lines: Sequence[str], first_line: int) -> tuple[list[str], dict[str, int]]:
        translated = translate(lines, first_line)
        return [line.to_json() for line in translated], dict(counts_of(translated))

    return work


def write_corpus(
    translated: Iterable[Translated],
    corpus: CorpusFiles,
    settings: Synthesis,
    *,
    noise_seed: int | None = None,
    lang: str | None = None,
) -> None:
    """Write all pairs, and list the other lines in settings.rejected; the files appear together when they are complete.

    noise_seed: add noise to the synthetic side, in the language lang.
    """
    sides = [path for path in (corpus.tsv, corpus.src, corpus.tgt) if path is not None]
    with (
        open_outputs([*sides, *([settings.rejected] if settings.rejected else [])]) as files,
        progress_bar(None, "writing", "line") as bar,
    ):
        for line_number, line in enumerate(translated, start=1):
            for translation in line.translations:
                pair = (line.text, translation if noise_seed is None else noised(translation, noise_seed, lang))
                src, tgt = pair if settings.direction == "forward" else reversed(pair)
                if corpus.tsv is not None:
                    files[0].write(f"{src}\t{tgt}\n")
                else:
                    files[0].write(f"{src}\n")
                    files[1].write(f"{tgt}\n")
            if settings.rejected and not line.translations:
                files[-1].write(f"{line_number}\t{line.reason}\t{line.text}\t{line.refused}\n")
            bar.update()


def noised(text: str, seed: int, lang: str | None = None) -> str:
    """Drop a tenth of the text's words and move the others a little; the same text always gives the same result.

    In a language without spaces between words, drop and move characters (see `_characters`). This is the noise that
    Edunov et al. (2018) add to beam output, except for blanking words, which model.word_dropout does.
    """
    by_character = primary_code(lang) in WITHOUT_SPACES
    words = _characters(text) if by_character else text.split()
    rng = random.Random(f"{seed}\n{text}")
    kept = [word for word in words if rng.random() >= _DROP_RATE] or words
    # Adding less than n + 1 to each place moves a word by at most n places (Lample et al. 2018)
    places = [place + rng.uniform(0, _MAX_MOVE + 1) for place in range(len(kept))]
    return ("" if by_character else " ").join(kept[place] for place in sorted(range(len(kept)), key=places.__getitem__))


def _characters(text: str) -> list[str]:
    """Split into characters with their marks above and below; do not split Latin words and numbers: GPU, 3.5%."""
    parts: list[str] = []
    for character in text:
        if parts and (
            belongs_to_previous(character)
            or parts[-1][-1] in _STACKERS
            or (_is_latin(parts[-1][0]) and _is_latin(character))
        ):
            parts[-1] += character
        else:
            parts.append(character)
    return parts


def _is_latin(character: str) -> bool:
    """Return whether a character can be part of a word in Latin script, or of a number."""
    if character < _FIRST_NOT_LATIN:
        return not character.isspace()
    is_apostrophe = character == "\N{RIGHT SINGLE QUOTATION MARK}"
    return is_apostrophe or character.isdecimal() or "LATIN" in unicodedata.name(character, "")


def _one_column(text: str) -> str:
    """Replace line breaks and tabs, which would break the TSV."""
    return as_column(text).strip()


def check_paths(inputs: Sequence[Path], corpus: CorpusFiles, rejected: Path | None) -> None:
    """Raise UsageError if an output is not a regular file, or is an input or another output."""
    outputs = [("--output", corpus.tsv), ("--out-src", corpus.src), ("--out-tgt", corpus.tgt), ("--rejected", rejected)]
    for _, path in outputs:
        if path is not None and path.exists() and not path.is_file():
            raise UsageError(f"{path}: not a regular file; give the name of a file to write")
    check_distinct(outputs, inputs)

"""Translate lines into as many translations, in the same order.

A line goes through four steps. `Reader` splits it into pieces with token ids. `PieceSearch` lets the engine translate
the pieces, and turns its hypotheses into candidates. `Review` checks the candidates and joins those of a line.
`Session` calls the three for one window of lines after the other, and counts what they notice.

Importing this module does not load torch, because the CTranslate2 engine works without it.
"""

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mtkit.alignment.checks import Checks
from mtkit.alignment.placing import Aligner
from mtkit.bundle import BundleFiles, bundle_file, check_ensemble, find_model, read_bundle
from mtkit.config.decoding import DecodeConfig
from mtkit.config.reading.overrides import decode_overrides
from mtkit.console import log
from mtkit.engines.choose import choose_engine
from mtkit.pair_files.lines import as_one_line, windows
from mtkit.search.hypothesis import Engine, Segment
from mtkit.tokens.tokenizer import Tokenizer
from mtkit.translation import mbr
from mtkit.translation.candidates import Candidate, Translation
from mtkit.translation.confidence import Calibration
from mtkit.translation.direction import DirectionCheck
from mtkit.translation.piece_search import PieceSearch
from mtkit.translation.pieces import Piece
from mtkit.translation.reading import Reader, checked, with_memory_of
from mtkit.translation.review import Review
from mtkit.translation.session import Session
from mtkit.translation.terminology import Terminology, TermReport

if TYPE_CHECKING:
    from mtkit.memory.index import Memory

_BATCHES_A_WINDOW = 4  # 16 save no time, and the progress bar of slow text would move too seldom


class Translator:
    """A trained model, ready to translate. A line's translation does not depend on the lines around it."""

    def __init__(
        self,
        engine: Engine,
        src_tokenizer: Tokenizer,
        tgt_tokenizer: Tokenizer,
        decode: DecodeConfig,
        *,
        other_src_tokenizers: Sequence[Tokenizer] = (),
        tgt_lang: str | None = None,
        files: BundleFiles | None = None,
        is_ensemble: bool = False,
        by_sentence: bool = False,
    ) -> None:
        """Take an engine and the tokenizers of its model.

        other_src_tokenizers: those of an ensemble's further models, unless all models share the first one's.
        tgt_lang: language of the translations, such as "fr"; the check for lost numbers needs it.
        files: the bundle that the translator was loaded from, the first one of an ensemble.
        by_sentence: translate each sentence of a line by itself.
        Raises DataError if decode.terminology or decode.memory cannot be used, or if a source tokenizer does not have
        decode.tag.
        """
        self.engine = engine
        self.tgt_tokenizer = tgt_tokenizer
        self.decode = decode
        self.tgt_lang = tgt_lang
        self.files = files
        self.is_ensemble = is_ensemble
        tokenizers = [src_tokenizer, *other_src_tokenizers]
        reader = Reader(tokenizers, tag=decode.tag, files=files, by_sentence=by_sentence, as_typed=decode.as_typed)
        self.src_tokenizer = reader.tokenizers[0]
        self.placeholders = reader.placeholders
        self.aligner = Aligner(engine, (self.src_tokenizer, tgt_tokenizer), files)
        # What decides whether a translation looks broken. It reads the lexicon once for all that `protecting` returns.
        self.checks = Checks(tgt_lang, files, (self.src_tokenizer, tgt_tokenizer))
        self.terminology: Terminology | None = None
        if decode.terminology is not None:  # its phrases are words, even where a pattern matches them
            self.terminology = Terminology.load(decode.terminology, tgt_tokenizer.with_placeholders(()))
            reader = reader.with_terms(self.terminology.source_words)
        self.reader = with_memory_of(reader, decode, files)
        self.utility: mbr.Utility | None = None  # chooses among decode.mbr_samples draws; None: expected chrF

    @classmethod
    def load(
        cls,
        path: str | Path | Sequence[str | Path] | None = None,
        *,
        device: str = "auto",
        overrides: Sequence[str] = (),
        utility: mbr.Utility | None = None,
        **decode: object,
    ) -> "Translator":
        """Load the model in a run or bundle folder; by default $MTKIT_MODEL, else the newest run in ./runs.

        If neither the call nor the config sets threads, torch keeps its own number and CTranslate2 uses one thread per
        core; threads=2 sets torch's threads for the whole process.
        path: one folder; several make an ensemble.
        decode: keys of the config's decode section, such as beam_size=1.
        overrides: the same as text, such as "decode.beam_size=1".
        utility: chooses among mbr_samples draws instead of chrF: takes a source and its draws, returns a number for
            each, and the highest wins.
        Raises BundleError if there is no such model, ConfigError for a wrong key or value.
        """
        paths = [path] if path is None or isinstance(path, str | Path) else path
        overrides = [*overrides, *decode_overrides(decode)]
        folders = [find_model(None if name is None else Path(name)) for name in paths]
        translator = cls.from_bundles([read_bundle(folder, overrides) for folder in folders], device=device)
        if utility is not None and not translator.decode.mbr_samples:
            raise ValueError("a utility chooses among samples: set mbr_samples, for example to 32")
        translator.utility = utility
        return translator

    @classmethod
    def from_bundles(
        cls,
        members: Sequence[BundleFiles],
        *,
        device: str = "auto",
        threads: int | None = None,
        starts_soon: bool = False,
    ) -> "Translator":
        """Build a translator from bundles; more than one are an ensemble, which uses the first one's config.

        threads: overrides the config's decode.threads. starts_soon: see `choose_engine`.
        """
        first, *others = members
        check_ensemble(members)
        _warn_of_missing_tag(first)
        engine = choose_engine(members, device, threads or first.config.decode.threads, starts_soon=starts_soon)
        same = all(other.src_tokenizer.fingerprint == first.src_tokenizer.fingerprint for other in others)
        return cls(
            engine,
            first.src_tokenizer,
            first.tgt_tokenizer,
            first.config.decode,
            other_src_tokenizers=() if same else [other.src_tokenizer for other in others],
            tgt_lang=first.config.data.tgt_lang,
            files=first,
            is_ensemble=bool(others),
            by_sentence=first.has_one_sentence_a_line,
        )

    def protecting(self, patterns: Sequence[str]) -> "Translator":
        """Return a translator that does not change text that matches these patterns, or that the model cannot know."""
        if tuple(patterns) == self.reader.protector.patterns:
            return self
        other = copy(self)
        other.reader = self.reader.protecting(patterns)
        return other

    def with_memory(self, memory: "Memory | None", threshold: int = 100) -> "Translator":
        """Return a translator that uses this translation memory; threshold: as decode.memory_threshold, in percent."""
        other = copy(self)
        other.reader = self.reader.with_memory(memory, threshold)
        return other

    def with_terms(self, terminology: Terminology) -> "Translator":
        """Return a translator that uses this terminology."""
        other = copy(self)
        other.terminology, other.reader = terminology, self.reader.with_terms(terminology.source_words)
        return other

    def __repr__(self) -> str:
        model = "" if self.files is None or self.is_ensemble else f"{str(self.files.folder)!r}, "
        return f"Translator({model}engine={self.engine.name!r}, beam_size={self.decode.beam_size})"

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Return one translation per line, in order; a blank line stays blank.

        Raises MtkitError, which names the line, for a line that is not text.
        """
        if isinstance(lines, str | bytes):
            raise TypeError("translate() takes a list of lines, not one string")
        return [translation.text for translation in self.stream(lines)]

    def stream(self, lines: Iterable[str], *, n_best: int = 1, window: int | None = None) -> Iterator[Translation]:
        """Yield translations in order; read, translate and yield one window of lines before reading the next.

        Logs at the end how many translations hit the length limit or look suspect, and which terms were met.
        n_best: candidates per line, at most the beam size; when sampling, the number of draws.
        window: lines read at once; by default enough for a few batches.
        """
        session = self.session(n_best=n_best)
        for chunk in windows(lines, window or self.window):
            yield from session.translate(chunk)
        session.report()

    def session(
        self, *, n_best: int = 1, prefix: str = "", check_direction: bool = True, searches_again: bool = True
    ) -> Session:
        """Start a text that the caller hands over in windows. prefix: whole words that begin every translation.

        check_direction: warn if the text is not in the model's source language. searches_again: False only warns about
        what looks broken.
        """
        if prefix and self.reader.matcher is not None:  # its translations begin with other words
            plain = self.with_memory(None).session
            return plain(n_best=n_best, prefix=prefix, check_direction=check_direction, searches_again=searches_again)
        in_beam = self.engine.name == "native"
        decode = self.decode
        if not searches_again and decode.on_suspect == "retry":
            decode = decode.model_copy(update={"on_suspect": "warn"})
        search = self.piece_search
        review = Review(search, decode, checks=self.checks, rules_in_beam=in_beam)
        terms = None if self.terminology is None else TermReport(self.terminology)
        files = self.files if check_direction else None
        direction = None if files is None else DirectionCheck(files, self.reader.training_text.sides)
        return Session(search, review, n_best=n_best, prefix=prefix, terms=terms, direction=direction)

    @property
    def piece_search(self) -> PieceSearch:
        """What translates pieces with this engine and these settings."""
        return PieceSearch(
            self.reader, self.engine, self.tgt_tokenizer, self.decode, self.aligner, self.terminology, self.utility
        )

    @property
    def window(self) -> int:
        """How many lines to read at once: enough for batches of similar length, with little padding."""
        return self.decode.batch_sentences * _BATCHES_A_WINDOW

    def confidence(self, candidate: Candidate) -> float | None:
        """Return the probability, 0 to 1, that a translation is good, by the bundle's calibration (`mtkit calibrate`).

        None without a calibration, and for a translation that is empty, hit the length limit or is from a memory.
        """
        if self.calibration is None:
            return None
        n_tokens = len(candidate.ids) + candidate.finished
        return self.calibration.confidence(candidate.log_prob, n_tokens, finished=candidate.finished)

    @cached_property
    def calibration(self) -> Calibration | None:
        """The calibration that `mtkit calibrate` added to the bundle."""
        path = None if self.files is None or self.is_ensemble else bundle_file(self.files, "confidence.json")
        if path is None:
            return None
        calibration = Calibration.load(path)
        calibration.warn_of_other_search(self.decode)
        return calibration

    def search(
        self,
        texts: Sequence[str],
        *,
        decode: DecodeConfig | None = None,
        n_best: int = 1,
        prefixes: Sequence[Sequence[int]] | None = None,
    ) -> list[list[Candidate]]:
        """Return the n best candidates of each text as the model reads it, unreviewed; of a blank one, an empty one.

        decode: settings to use instead of the translator's own. prefixes: target tokens that begin each translation.
        """
        search, whole = self.piece_search, self.reader.whole
        pieces = whole.encode([as_one_line(text).strip() for text in checked(texts)])
        if prefixes is not None:
            pieces = [replace(piece, prefix=tuple(ids)) for piece, ids in zip(pieces, prefixes, strict=True)]
        return search.search(pieces, decode or self.decode, n_best, whole)

    def pieces(self, lines: Sequence[str], first_line: int | None = None) -> list[list[Piece]]:
        """Split each line into at least one piece to translate, as `Reader.pieces` does."""
        return self.reader.pieces(lines, self.max_src_tokens, first_line)

    def segments(self, lines: Sequence[str]) -> list[list[Segment]]:
        """Return the segments of each line, none of a blank one."""
        search = self.piece_search
        return [[search.segment(piece) for piece in pieces if not piece.is_blank] for pieces in self.pieces(lines)]

    @property
    def max_src_tokens(self) -> int:
        """The most source tokens that are translated in one piece."""
        return self.piece_search.max_src_tokens()


def n_best_problem(n_best: int, decode: DecodeConfig) -> str:
    """Return why these settings cannot give n_best translations of a line; "" if they can."""
    if decode.mbr_samples and n_best > decode.mbr_samples:
        return f"{n_best} translations per line are more than decode.mbr_samples={decode.mbr_samples} draws; draw more"
    if decode.sampling or decode.mbr_samples or n_best <= decode.beam_size:
        return ""
    return f"{n_best} translations per line are more than decode.beam_size={decode.beam_size} finds; widen the beam"


def _warn_of_missing_tag(files: BundleFiles) -> None:
    """Warn if the model was trained on tagged text only, and decode.tag is not set."""
    tags = [corpus.tag for corpus in files.config.data.train]
    if files.config.decode.tag is None and all(tags):
        names = ", ".join(sorted({str(tag) for tag in tags}))
        log.warning(
            f"{files.folder}: every sentence of this model's training data began with a tag ({names}); "
            f"choose one, such as --set 'decode.tag={tags[0]}'"
        )

"""Translate lines: text in, translations out, in the same order and number.

Importing this loads no torch: the CTranslate2 engine works without it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from mtkit.bundle import BundleFiles, bundle_file, find_model, read_bundle
from mtkit.config.decoding import DecodeConfig
from mtkit.config.reading.overrides import decode_overrides
from mtkit.console import counted, log
from mtkit.data.sides import Sides
from mtkit.engines.choose import choose_engine
from mtkit.errors import BundleError
from mtkit.pair_files.lines import as_one_line, check_text, windows
from mtkit.search.hypothesis import Engine, Hypothesis, Segment
from mtkit.tokens.placeholders import TOKENS, Replaced, restore
from mtkit.tokens.tokenizer import Tokenizer
from mtkit.translation import mbr
from mtkit.translation.candidates import BLANK, Candidate, Translation, join_candidates
from mtkit.translation.confidence import Calibration
from mtkit.translation.direction import DirectionCheck, sides_of
from mtkit.translation.review import Review
from mtkit.translation.segments import split_long
from mtkit.translation.term_search import TermSearch
from mtkit.translation.terminology import Terminology, TermReport

_BATCHES_A_WINDOW = 16
_MOST_LISTED = 20  # lines


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
    ) -> None:
        """Take an engine and the tokenizers of its model.

        other_src_tokenizers: those of an ensemble's further models, unless all models share the first one's.
        tgt_lang: language of the translations, such as "fr"; the check for lost numbers needs it.
        files: the bundle that the translator was loaded from, the first one of an ensemble.
        Raises DataError if decode.terminology cannot be read, or if a source tokenizer does not have decode.tag.
        """
        self.engine = engine
        self.tgt_tokenizer = tgt_tokenizer
        self.decode = decode
        self.src_tokenizers = [src_tokenizer, *other_src_tokenizers]
        if decode.tag is not None:
            self.src_tokenizers = [tokenizer.tagged(decode.tag) for tokenizer in self.src_tokenizers]
        self.src_tokenizer = self.src_tokenizers[0]
        self.tgt_lang = tgt_lang
        self.files = files
        self.is_ensemble = is_ensemble
        self.placeholders = src_tokenizer.placeholders
        self.terminology = None
        if decode.terminology is not None:  # its phrases are words, even where a pattern matches them
            self.terminology = Terminology.load(decode.terminology, tgt_tokenizer.with_placeholders(()))
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
        for other in others:
            mine, theirs = first.config.data.placeholders, other.config.data.placeholders
            if mine != theirs:
                raise BundleError(
                    f"{first.folder} and {other.folder} cannot be an ensemble: data.placeholders is {mine} and "
                    f"{theirs}; choose models that were trained with the same patterns"
                )
            if other.tgt_tokenizer.fingerprint != first.tgt_tokenizer.fingerprint:
                raise BundleError(
                    f"{first.folder} and {other.folder} cannot be an ensemble: their target tokenizers differ "
                    f"({first.tgt_tokenizer.vocab_size:,} and {other.tgt_tokenizer.vocab_size:,} pieces); choose "
                    "models that were trained with one target tokenizer"
                )
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
        )

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

    def session(self, *, n_best: int = 1, prefix: str = "", check_direction: bool = True) -> "Session":
        """Start a text that the caller hands over in windows. prefix: whole words that begin every translation.

        check_direction: warn if the text is not in the model's source language.
        """
        return Session(self, n_best, prefix, check_direction=check_direction)

    @property
    def window(self) -> int:
        """How many lines to read at once: enough for batches of similar length, with little padding."""
        return self.decode.batch_sentences * _BATCHES_A_WINDOW

    def confidence(self, candidate: Candidate) -> float | None:
        """Return the probability, 0 to 1, that a translation is good, by the bundle's calibration (`mtkit calibrate`).

        None without a calibration, and for a translation that is empty or hit the length limit.
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

    @cached_property
    def sides(self) -> Sides | None:
        """The sides of the training text, by which a session notices text in a wrong language; None if unknown."""
        return None if self.files is None else sides_of(self.files)

    def search(
        self,
        texts: Sequence[str],
        *,
        decode: DecodeConfig | None = None,
        n_best: int = 1,
        prefixes: Sequence[Sequence[int]] | None = None,
    ) -> list[list[Candidate]]:
        """Return the n best candidates of each text, unreviewed; a blank text has a single empty one.

        decode: settings to use instead of the translator's own. prefixes: target tokens that begin each translation.
        """
        decode = decode or self.decode
        settings, n_draws = (mbr.sampling_settings(decode), decode.mbr_samples) if decode.mbr_samples else (decode, 0)
        segments, owners = self.segments(texts, settings, prefixes)
        if self.terminology is not None:
            hypotheses = TermSearch(self.engine, self.tgt_tokenizer, settings, n_best)(segments)
        else:
            hypotheses = [[] for _ in segments]
            for index, n_best_of_segment in self.engine.decode(segments, settings, n_draws or n_best):
                hypotheses[index] = n_best_of_segment
        parts: list[list[list[Candidate]]] = [[] for _ in texts]
        for owner, segment, segment_hypotheses in zip(owners, segments, hypotheses, strict=True):
            parts[owner].append([self._candidate(hypothesis, segment) for hypothesis in segment_hypotheses])
        candidates = [join_candidates(part) for part in parts]
        if not n_draws:
            return candidates
        return [
            draws if draws == [BLANK] else mbr.rank(draws, text, self.utility)[:n_best]
            for text, draws in zip(texts, candidates, strict=True)
        ]

    def segments(
        self,
        texts: Sequence[str],
        decode: DecodeConfig,
        prefixes: Sequence[Sequence[int]] | None = None,
        first_line: int | None = None,
    ) -> tuple[list[Segment], list[int]]:
        """Cut texts into the segments to translate; also return, for each segment, the index of its text.

        first_line: as for `split`.
        """
        pieces, owners = self.split(texts, decode, first_line)
        segments: list[Segment] = []
        segment_owners: list[int] = []
        replaced = [self.replaced(piece) for piece in pieces]
        encoded = self._encode_replaced([piece.text for piece in replaced])
        for piece, ids, owner in zip(replaced, encoded, owners, strict=True):
            if ids[0]:
                is_first = not segment_owners or segment_owners[-1] != owner
                prefix = tuple(prefixes[owner]) if prefixes is not None and is_first else ()
                segments.append(self._segment(piece, ids, decode, prefix))
                segment_owners.append(owner)
        return segments, segment_owners

    def split(
        self, texts: Sequence[str], decode: DecodeConfig | None = None, first_line: int | None = None
    ) -> tuple[list[str], list[int]]:
        """Split texts that are too long to be translated in one piece; also return the index of each piece's text.

        Each text has at least one piece. first_line: line number of the first text, for warnings about long texts;
        None: do not warn.
        """
        for number, text in enumerate(texts, start=first_line or 1):
            check_text(text, number)
        texts = [as_one_line(text).strip() for text in texts]
        limit = self.max_src_tokens(decode)
        pieces: list[str] = []
        owners: list[int] = []
        for owner, (text, ids) in enumerate(zip(texts, self._encode(texts), strict=True)):
            parts, n_tokens, n_placeholders = [text], max(map(len, ids)), self._n_placeholders(text)
            if n_tokens > limit or n_placeholders > len(TOKENS):
                parts = self._parts(text, limit)
                if first_line is not None:
                    many = f"{n_tokens} tokens are more than decode.max_src_tokens={limit}"
                    if n_tokens <= limit:
                        many = f"{n_placeholders} placeholders are more than {len(TOKENS)}"
                    log.warning(
                        f"line {first_line + owner}: {many}; translated in {counted(len(parts), 'segment')} and joined "
                        "again"
                    )
            pieces += parts
            owners += [owner] * len(parts)
        return pieces, owners

    def replaced(self, text: str) -> Replaced:
        """Return the text as the model reads it, with a token for each placeholder."""
        return self.placeholders.replace(text) if self.placeholders else Replaced(text, {})

    def max_src_tokens(self, decode: DecodeConfig | None = None) -> int:
        """Return the most source tokens that are translated in one piece, by these settings or the translator's own."""
        limit = (decode or self.decode).max_src_tokens
        positions = self.engine.max_positions
        return limit if positions is None else min(limit, positions - 1)  # EOS

    def needs_segments(self, text: str) -> bool:
        """Return whether the text is too long to be translated in one piece."""
        text = as_one_line(text).strip()
        return self._n_tokens(text) > self.max_src_tokens() or self._n_placeholders(text) > len(TOKENS)

    def _parts(self, text: str, limit: int) -> list[str]:
        """Split a text into parts of so many tokens and as many placeholders as there are reserved tokens."""
        if self.placeholders is None:
            return split_long(text, lambda part: self._n_tokens(part) <= limit)
        marked, values = self.placeholders.marked(text)  # no cut can go through a single character

        def unmarked(part: str) -> str:
            return "".join(values.get(character, character) for character in part)

        def fits(part: str) -> bool:
            return sum(map(part.count, values)) <= len(TOKENS) and self._n_tokens(unmarked(part)) <= limit

        return [unmarked(part) for part in split_long(marked, fits)]

    def _n_placeholders(self, text: str) -> int:
        return len(self.placeholders.values(text)) if self.placeholders else 0

    def _encode(self, texts: Sequence[str]) -> list[tuple[list[int], ...]]:
        """Encode each text with every source tokenizer."""
        return list(zip(*(tokenizer.encode_batch(texts) for tokenizer in self.src_tokenizers), strict=True))

    def _encode_replaced(self, texts: Sequence[str]) -> list[tuple[list[int], ...]]:
        """Encode texts whose placeholders have been replaced, likewise."""
        return list(zip(*(tokenizer.encode_replaced(texts) for tokenizer in self.src_tokenizers), strict=True))

    def _n_tokens(self, text: str) -> int:
        return max(len(tokenizer.encode(text)) for tokenizer in self.src_tokenizers)

    def _segment(
        self, replaced: Replaced, ids: tuple[list[int], ...], decode: DecodeConfig, prefix: tuple[int, ...]
    ) -> Segment:
        """Add the length limits, the placeholders and the terminology's constraints to a segment's tokens."""
        n_src_tokens = len(ids[0])
        max_len = int(decode.max_len_factor * n_src_tokens) + decode.max_len_constant
        if decode.max_len is not None:
            max_len = min(max_len, decode.max_len)
        max_len = max(max_len, len(prefix)) + 1  # EOS
        if self.engine.max_positions is not None:
            max_len = min(max_len, self.engine.max_positions)
        min_len = max(decode.min_len, int(decode.min_len_factor * n_src_tokens))
        text, values = replaced.text, replaced.values
        constraints = self.terminology.constraints_for(text, self.src_tokenizer) if self.terminology else None
        once = tuple(self.tgt_tokenizer.piece_ids(list(values)))
        never = tuple(token for token in self._reserved if token not in once)
        return Segment(ids[0], max_len, min_len, prefix, constraints, ids[1:], text, once, never, values)

    @cached_property
    def _reserved(self) -> list[int]:
        """The target tokens for placeholders; none without patterns."""
        return self.tgt_tokenizer.piece_ids(TOKENS) if self.placeholders else []

    def _candidate(self, hypothesis: Hypothesis, segment: Segment) -> Candidate:
        text = as_one_line(self.tgt_tokenizer.decode(hypothesis.ids)).strip()
        n_moved = 0
        if self.placeholders is not None:
            text, n_moved = restore(text, segment.values)
        return Candidate(text, hypothesis.ids, hypothesis.log_prob, hypothesis.score, hypothesis.finished, n_moved)


class Session:
    """Translates and reviews one text window by window, and counts what it notices."""

    def __init__(
        self, translator: Translator, n_best: int = 1, prefix: str = "", *, check_direction: bool = True
    ) -> None:
        """n_best: as for `Translator.stream`. prefix: whole words that begin every translation.

        check_direction: as for `Translator.session`.
        """
        self.translator = translator
        self.n_best = n_best
        self.prefix = prefix
        self.n_lines = 0
        self.n_unfinished = 0
        self.n_moved = 0  # translations with a placeholder that the model did not place
        self.lines_moved: list[int] = []  # numbers of the first of them
        self.review = Review(
            translator,
            translator.decode,
            tgt_lang=translator.tgt_lang,
            rules_in_beam=translator.engine.name == "native",
        )
        self.terms = None if translator.terminology is None else TermReport(translator.terminology)
        files = translator.files if check_direction else None
        self.direction = None if files is None else DirectionCheck(files, translator.sides)

    def translate(self, lines: Sequence[str], first_line: int | None = None) -> list[Translation]:
        """Translate the next lines. first_line: line number of the first one, if lines before it were skipped."""
        first_line = first_line or self.n_lines + 1
        if self.direction is not None:
            self.direction.add(lines)
        self.review.tally.n_before = first_line - 1 - self.n_lines
        pieces, owners = self.translator.split(lines, first_line=first_line)
        prefixes = None
        if self.prefix:  # only the first segment begins with it
            whole = self.translator.tgt_tokenizer.encode_translations([self.prefix] * len(pieces), pieces)
            is_first = [before != owner for before, owner in pairwise([-1, *owners])]
            prefixes = [ids if first else [] for ids, first in zip(whole, is_first, strict=True)]
        candidates = self.translator.search(pieces, n_best=self.n_best, prefixes=prefixes)
        reviewed = self.review.window(pieces, candidates, prefixes=prefixes, owners=owners)
        translations = [replace(translation, src=line) for line, translation in zip(lines, reviewed, strict=True)]
        self.n_lines += len(lines)
        self.n_unfinished += sum(not translation.finished for translation in translations)
        moved = [line for line, t in enumerate(translations, start=first_line) if t.n_best[0].n_moved]
        self._add_moved(len(moved), moved)
        if self.terms is not None:
            for line, translation in enumerate(translations, start=first_line):
                self.terms.add(self.translator.replaced(translation.src).text, translation.text, line)
        return translations

    def note(self) -> dict[str, Any]:
        """Return what was noticed so far as JSON, for `absorb`."""
        return {
            "lines": self.n_lines,
            "unfinished": self.n_unfinished,
            "moved": [self.n_moved, self.lines_moved],
            "review": self.review.tally.note(),
            **({"terms": self.terms.note()} if self.terms is not None else {}),
        }

    def absorb(self, note: Mapping[str, Any]) -> None:
        """Add what another session of the same settings noticed in the lines that come next."""
        self.n_lines += note["lines"]
        self.n_unfinished += note["unfinished"]
        self._add_moved(*note["moved"])
        self.review.tally.absorb(note["review"])
        if self.terms is not None:
            self.terms.absorb(note["terms"])

    def _add_moved(self, n: int, lines: Sequence[int]) -> None:
        self.n_moved += n
        self.lines_moved = [*self.lines_moved, *lines][:_MOST_LISTED]

    def report(self) -> None:
        """Log what was noticed, if anything was."""
        warn_unfinished(self.n_unfinished, self.n_lines)
        warn_moved(self.n_moved, self.lines_moved, self.n_lines)
        self.review.warn()
        if self.terms is not None:
            for line in self.terms.lines():
                log.info(line)


def n_best_problem(n_best: int, decode: DecodeConfig) -> str:
    """Return why these settings cannot give n_best translations of a line; "" if they can."""
    if decode.mbr_samples and n_best > decode.mbr_samples:
        return f"{n_best} translations a line are more than decode.mbr_samples={decode.mbr_samples} draws; draw more"
    if decode.sampling or decode.mbr_samples or n_best <= decode.beam_size:
        return ""
    return f"{n_best} translations a line are more than decode.beam_size={decode.beam_size} finds; widen the beam"


def warn_unfinished(n_unfinished: int, n_lines: int) -> None:
    """Warn of translations that the length limit ended, if there are any."""
    if n_unfinished:
        log.warning(
            f"{n_unfinished} of {counted(n_lines, 'translation')} hit the length limit (decode.max_len_factor, "
            "decode.max_len_constant, decode.max_len): they may be incomplete or repeat themselves"
        )


def warn_moved(n_moved: int, lines: Sequence[int], n_lines: int) -> None:
    """Warn of translations in which a placeholder is not where the model put it, if there are any; lines: the first."""
    if n_moved:
        listed = ", ".join(map(str, lines)) + (", ..." if n_moved > len(lines) else "")
        log.warning(
            f"{n_moved:,} of {counted(n_lines, 'translation')} had a placeholder too few or too many: what was "
            f"missing is at the end (line{'s' if n_moved > 1 else ''} {listed})"
        )


def _warn_of_missing_tag(files: BundleFiles) -> None:
    """Warn if the model was trained on tagged text only, and decode.tag is not set."""
    tags = [corpus.tag for corpus in files.config.data.train]
    if files.config.decode.tag is None and all(tags):
        names = ", ".join(sorted({str(tag) for tag in tags}))
        log.warning(
            f"{files.folder}: every sentence of this model's training data began with a tag ({names}); "
            f"choose one, such as --set 'decode.tag={tags[0]}'"
        )

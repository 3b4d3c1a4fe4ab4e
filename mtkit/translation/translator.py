"""Translate lines into as many translations, in the same order.

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
from mtkit.config.data import UNNAMED
from mtkit.config.decoding import DecodeConfig
from mtkit.config.reading.overrides import decode_overrides
from mtkit.config.tags import TOKENS
from mtkit.console import log
from mtkit.data.sides import Sides
from mtkit.engines.choose import choose_engine
from mtkit.pair_files.lines import as_one_line, check_text, windows
from mtkit.search.hypothesis import Engine, Hypothesis, Segment
from mtkit.text.capitals import Capitals, is_in_capitals, may_be_title
from mtkit.text.lines import keep_edges
from mtkit.tokens.placeholders import Replaced, restore
from mtkit.tokens.protected import Protector
from mtkit.tokens.tokenizer import Tokenizer
from mtkit.translation import mbr
from mtkit.translation.candidates import BLANK, Candidate, Translation, join_candidates
from mtkit.translation.confidence import Calibration
from mtkit.translation.direction import DirectionCheck, sides_of
from mtkit.translation.pieces import REMOVED, Cutter, Matcher, Piece
from mtkit.translation.review import Review
from mtkit.translation.session import Session
from mtkit.translation.term_search import TermSearch
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
        self.src_tokenizers = [src_tokenizer, *other_src_tokenizers]
        if decode.tag is not None:
            self.src_tokenizers = [tokenizer.tagged(decode.tag) for tokenizer in self.src_tokenizers]
        self.src_tokenizer = self.src_tokenizers[0]
        self.tgt_lang = tgt_lang
        self.files = files
        self.is_ensemble = is_ensemble
        self.by_sentence = by_sentence
        self.placeholders = src_tokenizer.placeholders
        self.aligner = Aligner(engine, (self.src_tokenizer, tgt_tokenizer), files)
        # What decides whether a translation looks broken. It reads the lexicon once for all that `protecting` returns.
        self.checks = Checks(tgt_lang, files, (self.src_tokenizer, tgt_tokenizer))
        self.protector = Protector(src_tokenizer, src_lang=None if files is None else files.config.data.src_lang)
        self.cutter, self._whole, self._bare = (
            Cutter(self.src_tokenizers, self.protector, removed, self._lowered) for removed in REMOVED
        )
        self.terminology = None
        if decode.terminology is not None:  # its phrases are words, even where a pattern matches them
            self.terminology = Terminology.load(decode.terminology, tgt_tokenizer.with_placeholders(()))
        self.matcher: Matcher | None = None
        if decode.memory is not None:
            from mtkit.memory.loading import load_memory  # here, because SQLite takes time to import

            langs = UNNAMED if files is None else (files.config.data.src_lang, files.config.data.tgt_lang)
            memory = load_memory(decode.memory, None if langs == UNNAMED else langs)
            self.matcher = Matcher(memory, decode.memory_threshold, len(self.src_tokenizers))
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
        """Return a translator that keeps text of these patterns as it is, and what the model cannot know."""
        if tuple(patterns) == self.protector.patterns:
            return self
        other = copy(self)
        other.protector = protector = self.protector.with_patterns(patterns)
        other.cutter, other._whole, other._bare = (
            cutter.protecting(protector) for cutter in (self.cutter, self._whole, self._bare)
        )
        return other

    def with_memory(self, memory: "Memory | None", threshold: int = 100) -> "Translator":
        """Return a translator that uses this translation memory; threshold: as decode.memory_threshold, in percent."""
        other = copy(self)
        other.matcher = None if memory is None else Matcher(memory, threshold, len(self.src_tokenizers))
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
        if prefix and self.matcher is not None:  # its translations begin with other words
            plain = self.with_memory(None).session
            return plain(n_best=n_best, prefix=prefix, check_direction=check_direction, searches_again=searches_again)
        in_beam = self.engine.name == "native"
        decode = self.decode
        if not searches_again and decode.on_suspect == "retry":
            decode = decode.model_copy(update={"on_suspect": "warn"})
        review = Review(self, decode, checks=self.checks, rules_in_beam=in_beam)
        terms = None if self.terminology is None else TermReport(self.terminology)
        files = self.files if check_direction else None
        direction = None if files is None else DirectionCheck(files, self.sides)
        has_memory = self.matcher is not None
        return Session(
            self, review, n_best=n_best, prefix=prefix, terms=terms, direction=direction, has_memory=has_memory
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

    @cached_property
    def sides(self) -> Sides | None:
        """The sides of the training text, by which a session detects text in a wrong language; None if unknown."""
        return None if self.files is None else sides_of(self.files)

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
        pieces = self._whole.encode([as_one_line(text).strip() for text in _checked(texts)])
        if prefixes is not None:
            pieces = [replace(piece, prefix=tuple(ids)) for piece, ids in zip(pieces, prefixes, strict=True)]
        return self._search(pieces, decode or self.decode, n_best, self._whole)

    def search_pieces(
        self, pieces: Sequence[Piece], *, decode: DecodeConfig | None = None, n_best: int = 1
    ) -> list[list[Candidate]]:
        """Return the n best candidates of each piece; one that is too long for these settings is split further.

        Where the model changes protected text, it translates the rest, and the alignment places that text.
        """
        decode = decode or self.decode
        if any(piece.is_settled for piece in pieces):
            found = iter(self.search_pieces([p for p in pieces if not p.is_settled], decode=decode, n_best=n_best))
            return [
                [Candidate(piece.match.tgt, [], 0.0, 0.0, True, is_from_memory=True)]
                if piece.match and piece.is_settled
                else next(found)
                for piece in pieces
            ]
        rows = self._search(pieces, decode, n_best, self.cutter)
        kept = [self._that_keep(piece, row) for piece, row in zip(pieces, rows, strict=True)]
        lost = [index for index, (row, of_row) in enumerate(zip(rows, kept, strict=True)) if len(of_row) < len(row)]
        if lost:
            bare = self._bare.encode_again([pieces[index] for index in lost])
            for index, row in zip(lost, self._search(bare, decode, n_best, self._bare), strict=True):
                texts = {candidate.text for candidate in kept[index]}
                others = [candidate for candidate in row if candidate.text not in texts]
                rows[index] = [*kept[index], *others][: len(rows[index])]
        return rows

    def _that_keep(self, piece: Piece, candidates: list[Candidate]) -> list[Candidate]:
        """Return the candidates that have all protected text of the piece, if the best one is among them."""
        values = [] if piece.inline is not None or piece.is_blank else piece.kept
        if not values:
            return candidates
        keep = [sorted(self.protector.values(candidate.text)) == sorted(values) for candidate in candidates]
        return [candidate for candidate, keeps in zip(candidates, keep, strict=True) if keeps and keep[0]]

    def _search(
        self, pieces: Sequence[Piece], decode: DecodeConfig, n_best: int, cutter: Cutter
    ) -> list[list[Candidate]]:
        """Return the n best candidates of each piece, as this cutter lets the model read it."""
        n_draws, limit = decode.mbr_samples, self.max_src_tokens(decode)
        parts = [cutter.cut(piece, limit) for piece in pieces]
        found = iter(self._candidates([part for of_piece in parts for part in of_piece], decode, n_draws or n_best))
        candidates = [_joined([(next(found), part.gap) for part in of_piece]) for of_piece in parts]
        if not n_draws:
            return candidates
        return [
            draws if draws == [BLANK] else mbr.rank(draws, piece.text, self.utility)[:n_best]
            for piece, draws in zip(pieces, candidates, strict=True)
        ]

    def _candidates(self, parts: Sequence[Piece], decode: DecodeConfig, n_best: int) -> list[list[Candidate]]:
        """Return the n best candidates of each part, with its protected text; none of a blank one."""
        segments = [self.segment(part, decode) for part in parts if not part.is_blank]
        hypotheses = iter(zip(segments, self._decode(segments, decode, n_best), strict=True))
        rows: list[list[Candidate]] = []
        for part in parts:
            if part.is_blank:
                rows.append([] if part.inline is None else [BLANK])
            else:
                segment, of_segment = next(hypotheses)
                rows.append([self.candidate(hypothesis, segment) for hypothesis in of_segment])
        for i, part in enumerate(parts):
            rows[i] = [replace(one, text=keep_edges(part.replaced.text, one.text)) for one in rows[i]]
        places = [(i, k, part.inline) for i, part in enumerate(parts) if part.inline for k in range(len(rows[i]))]
        texts = [rows[i][k].text for i, k, _ in places]
        placed = self.aligner.put_back([inline for *_, inline in places], texts)
        for (i, k, _), (text, n_placed) in zip(places, placed, strict=True):
            rows[i][k] = replace(rows[i][k], text=text, n_placed=n_placed)
        return rows

    def _decode(self, segments: Sequence[Segment], decode: DecodeConfig, n_best: int) -> list[list[Hypothesis]]:
        """Return the n best hypotheses of each segment, best first."""
        if self.terminology is not None:
            return TermSearch(self.engine, self.tgt_tokenizer, decode, n_best)(segments)
        hypotheses: list[list[Hypothesis]] = [[] for _ in segments]
        for index, n_best_of_segment in self.engine.decode(segments, decode, n_best):
            hypotheses[index] = n_best_of_segment
        return hypotheses

    def pieces(
        self, lines: Sequence[str], decode: DecodeConfig | None = None, first_line: int | None = None
    ) -> list[list[Piece]]:
        """Split each line into at least one piece to translate: a blank line is a single blank piece.

        A piece is a sentence if the training text has one sentence a line, and a part of one that is too long.
        first_line: line number of the first line, for warnings about long lines; None: do not warn.
        Raises DataError, which names the line, for a line that is not text.
        """
        limit = self.max_src_tokens(decode)
        texts = ["\f".join(map(as_one_line, line.split("\f"))).strip() for line in _checked(lines, first_line or 1)]
        settled = {} if self.matcher is None else self.matcher.settled_lines(texts)
        cut = []
        for index, whole in enumerate(self.cutter.lines(texts, whole=not self.by_sentence)):
            if index in settled:
                cut.append([settled[index]])
                continue
            n_tokens = sum(piece.n_tokens for piece in whole)
            n_excess = sum(map(self.cutter.excess_placeholders, whole))
            parts = [part for piece in whole for part in self.cutter.cut(piece, limit)]
            if len(parts) > 1 and (n_tokens > limit or n_excess):
                parts = [replace(part, is_of_long=True) for part in parts]
                if first_line is not None:
                    many = f"{n_tokens} tokens are more than decode.max_src_tokens={limit}"
                    if n_tokens <= limit:
                        many = f"{n_excess} placeholders are more than {len(TOKENS)}"
                    log.warning(
                        f"line {index + first_line}: {many}; translated in {len(parts)} segments and joined again"
                    )
            cut.append(parts if self.matcher is None else [self.matcher.matched(part) for part in parts])
        return cut

    def segments(
        self, lines: Sequence[str], decode: DecodeConfig | None = None, first_line: int | None = None
    ) -> list[list[Segment]]:
        """Return the segments of each line, none of a blank one. The arguments are those of `pieces`."""
        return [self._segments(pieces, decode or self.decode) for pieces in self.pieces(lines, decode, first_line)]

    def sentences(self, piece: Piece) -> list[Piece]:
        """Return the sentences of a piece; [piece] if it is one sentence."""
        return self.cutter.sentences(piece)

    def replaced(self, text: str) -> Replaced:
        """Return the text as the model reads it, with a token for each placeholder."""
        return self.cutter.replaced(text)

    def max_src_tokens(self, decode: DecodeConfig | None = None) -> int:
        """Return the most source tokens that are translated in one piece, by these settings or the translator's own."""
        limit = (decode or self.decode).max_src_tokens
        positions = self.engine.max_positions
        return limit if positions is None else min(limit, positions - 1)  # EOS

    def _segments(self, pieces: Sequence[Piece], decode: DecodeConfig) -> list[Segment]:
        return [self.segment(piece, decode) for piece in pieces if not piece.is_blank]

    def segment(self, piece: Piece, decode: DecodeConfig | None = None) -> Segment:
        """Return a piece that is not blank with limits, placeholders and the constraints of the terminology."""
        decode = decode or self.decode
        ids, *others = piece.ids
        max_len = int(decode.max_len_factor * len(ids)) + decode.max_len_constant
        if decode.max_len is not None:
            max_len = min(max_len, decode.max_len)
        max_len = max(max_len, len(piece.prefix)) + 1  # EOS
        if self.engine.max_positions is not None:
            max_len = min(max_len, self.engine.max_positions)
        text, values = piece.replaced.text, piece.replaced.values
        once = tuple(self.tgt_tokenizer.piece_ids(list(values)))
        return Segment(
            ids=ids,
            others=tuple(others),
            max_len=max_len,
            min_len=max(decode.min_len, int(decode.min_len_factor * len(ids))),
            prefix=piece.prefix,
            constraints=self.terminology.constraints_for(text, self.src_tokenizer) if self.terminology else None,
            text=text,
            once=once,
            never=tuple(token for token in self._reserved if token not in once),
            values=values,
            in_capitals=piece.in_capitals,
        )

    def text_of(self, ids: Sequence[int], segment: Segment) -> str:
        """Return the text of a segment's translation, with tokens for the placeholders."""
        text = as_one_line(self.tgt_tokenizer.decode(ids)).strip()
        return self.capitals.raised(text) if segment.in_capitals and self.capitals else text

    def _lowered(self, text: str) -> str | None:
        """Return a text in capitals, or a title, as ordinary sentences if the model has not learnt it; else None."""
        is_other = is_in_capitals(text) or (may_be_title(text) and not self.terminology)  # terms match as written
        return self.capitals.lowered(text) if is_other and self.capitals else None

    @cached_property
    def capitals(self) -> Capitals | None:
        """What writes text in capitals as the model knows it; None if its training text is unknown."""
        if self.files is None or self.sides is None:
            return None
        data = self.files.config.data
        return Capitals(self.sides.src.nats, data.src_lang, data.tgt_lang)

    @cached_property
    def _reserved(self) -> list[int]:
        """The target tokens for placeholders; none without patterns."""
        return self.tgt_tokenizer.piece_ids(TOKENS) if self.placeholders else []

    def candidate(self, hypothesis: Hypothesis, segment: Segment) -> Candidate:
        """Return a segment's translation as text, with its placeholders."""
        text, n_moved = self.text_of(hypothesis.ids, segment), 0
        if self.placeholders is not None:
            text, n_moved = restore(text, segment.values)
        return Candidate(text, hypothesis.ids, hypothesis.log_prob, hypothesis.score, hypothesis.finished, n_moved)


def _joined(rows: Sequence[tuple[list[Candidate], str | None]]) -> list[Candidate]:
    """Return a piece's candidates from those of its parts and the white space before each; a blank part has none."""
    same = [(row, gap) for row, gap in rows if row]
    return join_candidates([row for row, _ in same], [gap for _, gap in same])


def _checked(lines: Sequence[str], first_line: int = 1) -> Sequence[str]:
    """Return the lines. Raises DataError, which names the line, for one that is not text."""
    for number, line in enumerate(lines, start=first_line):
        check_text(line, number)
    return lines


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

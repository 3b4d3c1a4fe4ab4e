"""Lines in, translations out, in the same order and number. Nothing here needs torch, unless the engine does."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mtkit.bundle import BundleFiles, bundle_file, find_model, read_bundle
from mtkit.config.schema import DecodeConfig
from mtkit.console import log
from mtkit.data.corpus import as_one_line, windows
from mtkit.data.tokenizer import Tokenizer
from mtkit.engines.choose import choose_engine
from mtkit.errors import BundleError
from mtkit.quality.faults import Fault
from mtkit.search.hypothesis import Engine, Hypothesis, Segment
from mtkit.translation.segments import join_segments, split_long
from mtkit.translation.terminology import Terminology

if TYPE_CHECKING:
    from mtkit.translation.confidence import Confidence
    from mtkit.translation.session import Session

_BATCHES_A_WINDOW = 16


@dataclass(frozen=True)
class Candidate:
    """One translation of a line. For a line that was split, log_prob and score are sums over its segments."""

    text: str
    ids: list[int]  # target tokens, without EOS
    log_prob: float  # nats
    score: float  # log_prob after the length penalty
    finished: bool  # False: the length limit ended it


@dataclass(frozen=True)
class Translation:
    """What became of one line: its candidates, best first. A blank line has a single empty one."""

    src: str
    n_best: list[Candidate]
    faults: tuple[Fault, ...] = ()  # what looks wrong with the best one

    @property
    def text(self) -> str:
        """The best candidate's text."""
        return self.n_best[0].text

    @property
    def score(self) -> float:
        """The best candidate's score."""
        return self.n_best[0].score

    @property
    def finished(self) -> bool:
        """False if the length limit ended the best candidate, or a segment of it."""
        return self.n_best[0].finished


def overrides_of(decode: Mapping[str, object]) -> list[str]:
    """Values for keys of the config's decode section as overrides, quoted so that a path such as "a: b" stays one."""
    # JSON is YAML, but for escapes beyond \uFFFF
    return [f"decode.{key}={json.dumps(value, default=str, ensure_ascii=False)}" for key, value in decode.items()]


def too_narrow(n_best: int, decode: DecodeConfig) -> str:
    """What is wrong with asking for so many translations a line; "" if nothing is."""
    if decode.mbr_samples and n_best > decode.mbr_samples:
        return f"{n_best} translations a line are more than decode.mbr_samples={decode.mbr_samples} draws; draw more"
    if decode.sampling or decode.mbr_samples or n_best <= decode.beam_size:
        return ""
    return f"{n_best} translations a line are more than decode.beam_size={decode.beam_size} finds; widen the beam"


_BLANK = Candidate("", [], 0.0, 0.0, True)


class Searcher(Protocol):
    """What of a `Translator` those need who choose among candidates."""

    def search(
        self,
        texts: Sequence[str],
        *,
        decode: DecodeConfig | None = None,
        n_best: int = 1,
        prefixes: Sequence[Sequence[int]] | None = None,
        first_line: int | None = None,
    ) -> list[list[Candidate]]:
        """The n best candidates of each text, best first."""
        ...


class Translator:
    """An engine with its tokenizers. A line's translation does not depend on the lines around it."""

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
    ) -> None:
        """other_src_tokenizers: those of an ensemble's further models, unless all have the first one's.

        tgt_lang: language of the translations, such as "fr", for the look at suspect ones.
        files: the bundle that all this comes from, none for an ensemble; its calibration, if it has one, gives
        `confidence`.
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
        self.terminology = None if decode.terminology is None else Terminology.load(decode.terminology, tgt_tokenizer)

    @classmethod
    def load(
        cls,
        path: str | Path | Sequence[str | Path] | None = None,
        *,
        device: str = "auto",
        overrides: Sequence[str] = (),
        **decode: object,
    ) -> "Translator":
        """The translator of a run or bundle folder; by default $MTKIT_MODEL, else the newest run in ./runs.

        path: several are an ensemble. Other keywords stand for keys of the config's decode section, such as
        beam_size=1; overrides are the same as text, such as "decode.beam_size=1". threads=2 holds for torch in the
        whole process; where neither it nor the config names a number, torch keeps its own, and CTranslate2 takes one
        thread per core.
        Raises BundleError if there is no such model, ConfigError for a wrong key or value.
        """
        paths = [path] if path is None or isinstance(path, str | Path) else path
        overrides = [*overrides, *overrides_of(decode)]
        folders = [find_model(None if name is None else Path(name)) for name in paths]
        return cls.of([read_bundle(folder, overrides) for folder in folders], device=device)

    @classmethod
    def of(cls, members: Sequence[BundleFiles], *, device: str = "auto", threads: int | None = None) -> "Translator":
        """The translator of bundles that have been read; more than one are an ensemble, led by the first's config.

        threads: in place of its decode.threads.
        """
        first, *others = members
        for other in others:
            if other.tgt_tokenizer.fingerprint != first.tgt_tokenizer.fingerprint:
                raise BundleError(
                    f"{first.folder} and {other.folder} cannot be an ensemble: their target tokenizers differ "
                    f"({first.tgt_tokenizer.vocab_size:,} and {other.tgt_tokenizer.vocab_size:,} pieces); models that "
                    "vote on the next token must mean the same tokens by the same ids"
                )
        _warn_of_missing_tag(first)
        engine = choose_engine(members, device, threads or first.config.decode.threads)
        same = all(other.src_tokenizer.fingerprint == first.src_tokenizer.fingerprint for other in others)
        further = () if same else [other.src_tokenizer for other in others]
        return cls(
            engine,
            first.src_tokenizer,
            first.tgt_tokenizer,
            first.config.decode,
            other_src_tokenizers=further,
            tgt_lang=first.config.data.target_language,
            files=None if others else first,
        )

    def confidence(self, candidate: Candidate) -> float | None:
        """How sure one can be of a translation, 0 to 1, by the calibration in the bundle (`mtkit calibrate`).

        None without a calibration, and for a translation that is empty or was ended by the length limit.
        """
        if self.calibration is None:
            return None
        return self.calibration.of(
            candidate.log_prob, len(candidate.ids) + candidate.finished, finished=candidate.finished
        )

    @cached_property
    def calibration(self) -> "Confidence | None":
        """What `mtkit calibrate` has added to the bundle."""
        path = None if self.files is None else bundle_file(self.files, "confidence.json")
        if path is None:
            return None
        from mtkit.translation.confidence import Confidence

        calibration = Confidence.load(path)
        calibration.warn_of_other_search(self.decode)
        return calibration

    @property
    def window(self) -> int:
        """How many lines are worth reading at once: enough for batches of like length, with little padding."""
        return self.decode.batch_sentences * _BATCHES_A_WINDOW

    def translate(self, lines: Sequence[str]) -> list[str]:
        """One translation per line, in order; a blank line stays blank."""
        if isinstance(lines, str):
            raise TypeError("translate() takes a list of lines, not one string")
        return [translation.text for translation in self.stream(lines)]

    def stream(self, lines: Iterable[str], *, n_best: int = 1, window: int | None = None) -> Iterator[Translation]:
        """Translations in order, as they come; lines are read window by window (default: a few batches).

        n_best: candidates per line, at most the beam size; when sampling, so many draws.
        """
        return self.stream_windows(windows(lines, window or self.window), n_best=n_best)

    def stream_windows(self, windows: Iterable[Sequence[str]], *, n_best: int = 1) -> Iterator[Translation]:
        """Translations in order; each window of lines is translated, and given, before the next one is asked for.

        Says at the end what was noticed: translations that hit the length limit or look suspect, terms met.
        """
        session = self.session(n_best=n_best)
        for window in windows:
            yield from session.translate(window)
        session.report()

    def session(self, *, n_best: int = 1, prefix: str = "") -> "Session":
        """A text that is translated window by window. prefix: what every translation begins with, in whole words."""
        from mtkit.translation.session import Session

        return Session(self, n_best, self.tgt_tokenizer.encode(prefix))

    def search(
        self,
        texts: Sequence[str],
        *,
        decode: DecodeConfig | None = None,
        n_best: int = 1,
        prefixes: Sequence[Sequence[int]] | None = None,
        first_line: int | None = None,
    ) -> list[list[Candidate]]:
        """The n best translations of each text; a blank text has a single empty one.

        decode: other settings than the translator's own. prefixes: target tokens that each translation begins with.
        first_line: the first text's number, for messages about texts that are too long; none: no messages.
        """
        decode = decode or self.decode
        if decode.mbr_samples:
            from mtkit.translation.mbr import rerank

            return rerank(self, texts, decode, n_best=n_best, prefixes=prefixes, first_line=first_line)
        texts = [as_one_line(text).strip() for text in texts]
        segments, owners = self.segments(texts, decode, prefixes, first_line)
        parts: list[list[list[Candidate]]] = [[] for _ in texts]
        found: list[list[Hypothesis]] = [[] for _ in segments]
        for number, hypotheses in self.engine.decode(segments, decode, n_best):
            found[number] = hypotheses
        for owner, hypotheses in zip(owners, found, strict=True):
            parts[owner].append([self._candidate(hypothesis) for hypothesis in hypotheses])
        return [_join(part) for part in parts]

    def segments(
        self,
        texts: Sequence[str],
        decode: DecodeConfig,
        prefixes: Sequence[Sequence[int]] | None = None,
        first_line: int | None = None,
    ) -> tuple[list[Segment], list[int]]:
        """What is to be translated, and for each segment the number of the text that it is (a part of)."""
        limit = self.max_src_tokens(decode)
        segments: list[Segment] = []
        owners: list[int] = []
        for owner, ids in enumerate(self._encode(texts)):
            pieces, parts = [texts[owner]], [ids]
            if len(max(ids, key=len)) > limit:
                pieces = split_long(texts[owner], lambda text: self._n_tokens(text) <= limit)
                parts = self._encode(pieces)
                if first_line is not None:
                    log.warning(
                        f"line {first_line + owner}: {len(max(ids, key=len))} tokens are more than "
                        f"decode.max_src_tokens={limit}; translated in {len(parts)} segments and joined again"
                    )
            prefix = tuple(prefixes[owner]) if prefixes is not None else ()
            for piece, part in zip(pieces, parts, strict=True):
                if part[0]:
                    segments.append(self._ask(piece, part, decode, prefix))
                    owners.append(owner)
                    prefix = ()  # it was the beginning of the first segment
        return segments, owners

    def max_src_tokens(self, decode: DecodeConfig | None = None) -> int:
        """The most source tokens that are translated in one piece, by these settings or the translator's own."""
        limit = (decode or self.decode).max_src_tokens
        positions = self.engine.max_positions
        return limit if positions is None else min(limit, positions - 1)  # EOS

    def needs_segments(self, text: str) -> bool:
        """Whether the text is too long for the translator to translate it in one piece."""
        return self._n_tokens(as_one_line(text).strip()) > self.max_src_tokens()

    def _encode(self, texts: Sequence[str]) -> list[tuple[list[int], ...]]:
        """Of each text the tokens of every member's source tokenizer."""
        return list(zip(*(tokenizer.encode_batch(texts) for tokenizer in self.src_tokenizers), strict=True))

    def _n_tokens(self, text: str) -> int:
        return max(len(tokenizer.encode(text)) for tokenizer in self.src_tokenizers)

    def _ask(self, text: str, ids: tuple[list[int], ...], decode: DecodeConfig, prefix: tuple[int, ...]) -> Segment:
        """The segment with its limits, and what the terminology asks of its translation."""
        n_src_tokens = len(ids[0])
        max_len = int(decode.max_len_factor * n_src_tokens) + decode.max_len_constant
        if decode.max_len is not None:
            max_len = min(max_len, decode.max_len)
        max_len = max(max_len, len(prefix)) + 1  # EOS
        if self.engine.max_positions is not None:
            max_len = min(max_len, self.engine.max_positions)
        min_len = max(decode.min_len, int(decode.min_len_factor * n_src_tokens))
        constraints = self.terminology.constraints_for(text) if self.terminology else None
        return Segment(ids[0], max_len, min_len, prefix, constraints, ids[1:])

    def _candidate(self, hypothesis: Hypothesis) -> Candidate:
        text = as_one_line(self.tgt_tokenizer.decode(hypothesis.ids)).strip()
        return Candidate(text, hypothesis.ids, hypothesis.log_prob, hypothesis.score, hypothesis.finished)


def _warn_of_missing_tag(files: BundleFiles) -> None:
    """Say so if the model was trained on tagged text alone, and is now to translate without a tag."""
    tags = [corpus.tag for corpus in files.config.data.train]
    if files.config.decode.tag is None and all(tags):
        names = ", ".join(sorted({str(tag) for tag in tags}))
        log.warning(
            f"{files.folder}: every sentence that this model learnt from began with a tag ({names}); "
            f"choose one, such as --set 'decode.tag={tags[0]}'"
        )


def _join(parts: list[list[Candidate]]) -> list[Candidate]:
    """A line's candidates from those of its segments: the k-th of the line joins the k-th of every segment."""
    if not parts:
        return [_BLANK]
    if len(parts) == 1:
        return parts[0]
    return [
        Candidate(
            text=join_segments([part.text for part in kth]),
            ids=[token_id for part in kth for token_id in part.ids],
            log_prob=sum(part.log_prob for part in kth),
            score=sum(part.score for part in kth),
            finished=all(part.finished for part in kth),
        )
        for kth in zip(*parts, strict=False)
    ]

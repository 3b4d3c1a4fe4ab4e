"""`mtkit score`: score given translations by the model's probabilities, line by line."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mtkit import bundle, runtime
from mtkit.cli.lines import arriving_windows, line_writer
from mtkit.cli.options import OUTPUT, TEXT, DecodeSetOption, DeviceOption, ModelOption, OutputOption
from mtkit.config.data import CorpusFiles
from mtkit.console import log, progress_bar
from mtkit.data import corpus
from mtkit.errors import DataError, UsageError
from mtkit.formats import lines as text_lines
from mtkit.scoring import alignment as word_alignment
from mtkit.scoring import scoring

_WINDOW_PAIRS = 1024


SrcOption = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel=TEXT,
        help="Source text, may end in .gz, .xz or .zst. Default: lines of source, tab, target on standard input.",
    ),
]
TgtOption = Annotated[Path | None, typer.Option(rich_help_panel=TEXT, help="Its translation, line by line.")]
TokensOption = Annotated[
    bool, typer.Option("--tokens", rich_help_panel=OUTPUT, help="Add each target token with its log-probability.")
]
AlignmentsOption = Annotated[
    bool,
    typer.Option(
        "--alignments", rich_help_panel=OUTPUT, help="Add the word alignment: 0-0 1-2, source word-target word."
    ),
]
JsonLinesOption = Annotated[bool, typer.Option("--json", rich_help_panel=OUTPUT, help="Print JSON lines.")]


def score(
    src: SrcOption = None,
    tgt: TgtOption = None,
    model: ModelOption = None,
    output_path: OutputOption = None,
    tokens: TokensOption = False,
    alignments: AlignmentsOption = False,
    as_json: JsonLinesOption = False,
    device: DeviceOption = "auto",
    overrides: DecodeSetOption = None,
) -> None:
    """Score given translations by the model's probabilities; totals go to stderr.

    Each pair is a line of tab-separated columns: log-probability of the translation (natural log, including the end of
    sentence), number of tokens (including the end), log-probability per token, perplexity per token; then the tokens as
    piece=log-probability (--tokens) and the alignment (--alignments). Pairs that cannot be scored (a blank source, a
    side longer than the model's positions) show nan and are counted on stderr; nothing is cut. Last digits may vary,
    because rounding depends on the pairs that share a batch.
    """
    if (src is None) != (tgt is None):
        raise UsageError("give both --src and --tgt, or neither for lines of source, tab, target from stdin")

    folder = bundle.find_model(model)
    log.info(f"model: {folder}")
    loaded = bundle.load_bundle(folder, overrides or [])
    runtime.set_threads(loaded.config.decode.threads)
    src_tokenizer = loaded.src_tokenizer.tagged(loaded.config.decode.tag)
    scorer = scoring.Scorer(loaded.model.to(runtime.choose_device(device)), src_tokenizer, loaded.tgt_tokenizer)
    totals, limit = scoring.ScoreTotals(), loaded.config.decode.max_src_tokens
    n_lines = text_lines.count_lines(src) if src is not None and src.is_file() else None  # a pipe can be read only once
    with line_writer(output_path) as write, progress_bar(n_lines, "scoring", "pair") as bar:
        for window in _windows(src, tgt):
            links: Sequence[str | None] = [None] * len(window)
            if alignments:
                links = word_alignment.align(scorer.model, scorer.src_tokenizer, scorer.tgt_tokenizer, window)
            for pair_score, link in zip(scorer.score(window), links, strict=True):
                totals.add(pair_score, limit)
                as_line = _Line(pair_score, tokens, link)
                write(as_line.json(totals.n_pairs) if as_json else as_line.tsv())
            bar.update(len(window))
    totals.report(limit)


def _windows(src: Path | None, tgt: Path | None) -> Iterator[list[tuple[str, str]]]:
    """Yield the pairs in windows; from standard input, as many as have arrived."""
    if src is not None and tgt is not None:
        pairs = corpus.read_pairs([CorpusFiles(src=src, tgt=tgt)])
        yield from text_lines.windows(((pair.src, pair.tgt) for pair in pairs), _WINDOW_PAIRS)
        return

    if sys.stdin is not None and sys.stdin.isatty():
        log.info("reading source, tab, target from the terminal; Ctrl-D ends")
    n_lines = 0
    for lines in arriving_windows(_WINDOW_PAIRS):
        yield [_columns(line, n_lines + i) for i, line in enumerate(lines, start=1)]
        n_lines += len(lines)


def _columns(line: str, line_number: int) -> tuple[str, str]:
    src, *tgt = line.split("\t")
    if len(tgt) != 1:
        raise DataError(f"standard input: line {line_number}: {len(tgt)} tabs; each line must be: source, tab, target")
    return src, tgt[0]


@dataclass(frozen=True)
class _Line:
    """A pair's line of output."""

    score: scoring.PairScore
    tokens: bool
    alignment: str | None

    def tsv(self) -> str:
        score = self.score
        columns = [f"{score.log_prob:.4f}", str(score.n_tokens), f"{score.mean:.4f}", f"{score.perplexity:.4f}"]
        if self.tokens:
            columns.append(" ".join(f"{piece}={log_prob:.4f}" for piece, log_prob in self._tokens()))
        return "\t".join(columns if self.alignment is None else [*columns, self.alignment])

    def json(self, line: int) -> str:
        score = self.score
        record: dict[str, object] = {"line": line, **({"problem": score.problem} if score.problem else {})}
        record |= {"log_prob": _number(score.log_prob), "n_tokens": score.n_tokens}
        record |= {"per_token": _number(score.mean), "perplexity": _number(score.perplexity)}
        if self.tokens:
            record["tokens"] = [{"piece": piece, "log_prob": _number(log_prob)} for piece, log_prob in self._tokens()]
        if self.alignment is not None:
            record["alignment"] = self.alignment
        return json.dumps(record, ensure_ascii=False)

    def _tokens(self) -> zip[tuple[str, float]]:
        return zip(self.score.pieces, self.score.log_probs, strict=True)


def _number(value: float) -> float | None:
    """Return null for NaN and infinity, which JSON does not have."""
    return round(value, 6) if math.isfinite(value) else None

"""`mtkit score`: sources and given translations in; what the model thinks of each pair out, line by line."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mtkit import bundle, runtime
from mtkit.cli.lines import arriving_windows, line_writer
from mtkit.cli.options import DecodeSetOption, DeviceOption, ModelOption, OutputOption
from mtkit.config import schema
from mtkit.console import log, progress_bar
from mtkit.data import corpus
from mtkit.errors import DataError, UsageError
from mtkit.scoring import alignment as word_alignment
from mtkit.scoring import scoring

_WINDOW_PAIRS = 1024


def score(
    src: Annotated[
        Path | None, typer.Option(help="Source text, .gz too; without it, stdin: source, tab, target.")
    ] = None,
    tgt: Annotated[Path | None, typer.Option(help="Its translation, line by line.")] = None,
    model: ModelOption = None,
    output_path: OutputOption = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Each target token with its log-probability, too.")] = False,
    alignments: Annotated[
        bool, typer.Option("--alignments", help="The word alignment, too: 0-0 1-2, source word - target word.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines.")] = False,
    device: DeviceOption = "auto",
    overrides: DecodeSetOption = None,
) -> None:
    """Score given translations by the model's own probabilities; totals go to stderr.

    A line per pair, with tabs between: log-probability of the translation (natural log, end of sentence counted),
    number of tokens (with the end), log-probability per token, perplexity per token; with --tokens the tokens as
    piece=log-probability, with --alignments the links. Pairs that cannot be scored (a blank source, a side longer than
    the model's positions) have nan, and a count on stderr; nothing is cut. The last digits are not exact: rounding
    depends on the pairs that are computed together.
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
    n_lines = corpus.count_lines(src) if src is not None and src.is_file() else None  # a pipe can be read only once
    with line_writer(output_path) as write, progress_bar(n_lines, "scoring", "pair") as bar:
        for window in _windows(src, tgt):
            links = (
                word_alignment.align(scorer.model, scorer.src_tokenizer, scorer.tgt_tokenizer, window)
                if alignments
                else None
            )
            for number, found in enumerate(scorer.score(window)):
                totals.add(found, limit)
                as_line = _Line(found, tokens, links[number] if links else None)
                write(as_line.json(totals.n_pairs) if as_json else as_line.tsv())
            bar.update(len(window))
    totals.report(limit)


def _windows(src: Path | None, tgt: Path | None) -> Iterator[list[tuple[str, str]]]:
    """The pairs, as many at once as are worth it, or as have arrived on stdin."""
    if src is not None and tgt is not None:
        pairs = corpus.read_pairs([schema.CorpusFiles(src=src, tgt=tgt)])
        yield from corpus.windows(((pair.src, pair.tgt) for pair in pairs), _WINDOW_PAIRS)
        return

    if sys.stdin is not None and sys.stdin.isatty():
        log.info("reading source, tab, target from the terminal; Ctrl-D ends")
    n_lines = 0
    for lines in arriving_windows(_WINDOW_PAIRS):
        yield [_columns(line, n_lines + number) for number, line in enumerate(lines, start=1)]
        n_lines += len(lines)


def _columns(line: str, number: int) -> tuple[str, str]:
    src, *tgt = line.split("\t")
    if len(tgt) != 1:
        raise DataError(f"standard input: line {number}: {len(tgt)} tabs; each line must be: source, tab, target")
    return src, tgt[0]


@dataclass(frozen=True)
class _Line:
    """What is told about a pair."""

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
    """As JSON has it, which knows neither NaN nor infinity."""
    return round(value, 6) if math.isfinite(value) else None

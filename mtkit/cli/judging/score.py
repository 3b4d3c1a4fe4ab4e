"""`mtkit score`: score given translations by the model's probabilities, line by line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.lines import arriving_windows, check_stdin, line_writer
from mtkit.cli.options import OUTPUT, TEXT, DecodeSetOption, DeviceOption, ModelOption, OutputOption
from mtkit.cli.sharing import (
    ExecutorOption,
    ModelWorkersOption,
    RayAddressOption,
    RestartOption,
    Where,
)
from mtkit.config.data import CorpusFiles
from mtkit.console import log, progress_bar
from mtkit.errors import DataError, UsageError
from mtkit.pair_files import lines as text_lines

if TYPE_CHECKING:
    from mtkit.scoring import scoring
    from mtkit.scoring.score_file import Form

SrcOption = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel=TEXT,
        help="Source text, may end in .gz, .xz or .zst. Default: lines of source, tab, target on standard input.",
    ),
]
TgtOption = Annotated[Path | None, typer.Option(rich_help_panel=TEXT, help="Translation of --src, line by line.")]
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
    workers: ModelWorkersOption = None,
    executor: ExecutorOption = "local",
    ray_address: RayAddressOption = None,
    restart: RestartOption = False,
) -> None:
    """Score given translations by the model's probabilities; totals go to stderr.

    Each pair is a line of tab-separated columns: log-probability of the translation (natural log, including the end of
    sentence), number of tokens (including the end), log-probability per token, perplexity per token; then the tokens as
    piece=log-probability (--tokens) and the alignment (--alignments). The command prints nan for pairs that it cannot
    score (a blank source, a side longer than the model's positions), and their number on stderr; it truncates nothing.
    The last digits may vary, because rounding depends on the pairs in the same batch and on the number of threads. With
    --src, --tgt and --output, the same command resumes an interrupted job.
    """
    from mtkit import bundle
    from mtkit.pair_files import corpus_files

    corpus_files.check_distinct([("--output", output_path)], [*filter(None, [src, tgt])])
    if (src is None) != (tgt is None):
        raise UsageError("give both --src and --tgt, or neither for lines of source, tab, target from stdin")

    where = Where(workers, executor, ray_address)
    if not (is_job := _can_be_a_job(src, tgt, output_path)) and (restart or workers is not None or where.on_ray):
        raise UsageError(
            "--workers, --executor ray and --restart need a job from files to a file; give --src, --tgt and "
            "--output, too"
        )
    if src is None:
        check_stdin("--src and --tgt")
    folder = bundle.find_model(model)
    log.info(f"model: {folder}")
    decode = bundle.read_bundle(folder, overrides or []).config.decode

    from mtkit.scoring.score_file import Form, LoadScorer, score_files

    form = Form(as_json, tokens, alignments)
    load, limit = LoadScorer(folder, overrides or [], device, decode.threads), decode.max_src_tokens
    if is_job:
        assert src is not None and tgt is not None and output_path is not None
        totals = score_files(src, tgt, output_path, load, form, where.executor_for(decode.workers), restart=restart)
    else:
        totals = _score_stream(src, tgt, output_path, load(), form, limit)
    totals.report(limit)


def _can_be_a_job(src: Path | None, tgt: Path | None, output: Path | None) -> bool:
    from mtkit.jobs import line_job

    if src is None or tgt is None or output is None:
        return False
    return tgt.is_file() and line_job.can_be_a_job(src, output)


def _score_stream(
    src: Path | None, tgt: Path | None, output_path: Path | None, scorer: scoring.Scorer, form: Form, limit: int
) -> scoring.ScoreTotals:
    """Write each pair's line as soon as it is scored."""
    from mtkit.scoring import scoring
    from mtkit.scoring.score_file import score_window

    totals = scoring.ScoreTotals()
    n_lines = text_lines.count_lines(src) if src is not None and src.is_file() else None  # a pipe can be read only once
    with line_writer(output_path) as write, progress_bar(n_lines, "scoring", "pair") as bar:
        for window in _windows(src, tgt):
            lines, of_window = score_window(scorer, form, limit, window, totals.n_pairs + 1)
            for line in lines:
                write(line)
            totals.absorb(of_window.note())
            bar.update(len(window))
    return totals


def _windows(src: Path | None, tgt: Path | None) -> Iterator[list[tuple[str, str]]]:
    """Yield the pairs in windows; a window of standard input holds the pairs that have arrived."""
    from mtkit.data import corpus
    from mtkit.scoring.score_file import WINDOW_PAIRS

    if src is not None and tgt is not None:
        pairs = corpus.read_pairs([CorpusFiles(src=src, tgt=tgt)])
        yield from text_lines.windows(((pair.src, pair.tgt) for pair in pairs), WINDOW_PAIRS)
        return

    n_lines = 0
    for lines in arriving_windows(WINDOW_PAIRS, "source, tab, target"):
        yield [_columns(line, n_lines + i) for i, line in enumerate(lines, start=1)]
        n_lines += len(lines)


def _columns(line: str, line_number: int) -> tuple[str, str]:
    src, *tgt = line.split("\t")
    if len(tgt) != 1:
        raise DataError(f"standard input: line {line_number}: {len(tgt)} tabs; each line must be: source, tab, target")
    return src, tgt[0]

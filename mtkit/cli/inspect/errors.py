"""`mtkit inspect errors`: find the pairs with the highest loss, or the sentences nearest to one."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mtkit.cli.inspect.shared import load_model, log_written
from mtkit.cli.lines import line_writer
from mtkit.cli.options import (
    TEXT,
    DecodeSetOption,
    DeviceOption,
    JsonOption,
    ModelOption,
    output_option,
    valid_text,
)
from mtkit.config.data import CorpusFiles
from mtkit.console import counted, log
from mtkit.errors import DataError, UsageError
from mtkit.inspection import corpus_choice
from mtkit.pair_files import lines as text_lines

if TYPE_CHECKING:
    from mtkit.bundle import BundleFiles
    from mtkit.inspection import hard_pairs, neighbours

Part = Literal["train", "dev", "test"]


PartOption = Annotated[
    Part, typer.Option("--corpus", rich_help_panel=TEXT, help="Text of the model's config to score.")
]
SrcOption = Annotated[
    Path | None, typer.Option(rich_help_panel=TEXT, help="Use this text instead; may end in .gz, .xz or .zst.")
]
TgtOption = Annotated[Path | None, typer.Option(rich_help_panel=TEXT, help="Translation of --src, line by line.")]
SampleOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        rich_help_panel=TEXT,
        help=f"Use at most N pairs, evenly spaced. Default: {corpus_choice.SAMPLE:,}; with --near, all.",
    ),
]
AllOption = Annotated[bool, typer.Option("--all", rich_help_panel=TEXT, help="Use every pair.")]
TopOption = Annotated[
    int, typer.Option("--top", "-n", min=1, help="Number of pairs to show, or of sentences with --near.")
]
TranslateOption = Annotated[bool, typer.Option("--translate", help="Add the model's own translations.")]
NearOption = Annotated[
    str | None,
    typer.Option(
        callback=valid_text,
        metavar="SENTENCE",
        help="Show the source sentences that are nearest to this one by encoder output, instead of pairs.",
    ),
]
ResultOption = Annotated[
    Path | None,
    output_option(
        suffixes=(".tsv", ".json"), help="Write the result to this .tsv or .json file. Default: standard output."
    ),
]


def show_errors(
    part: PartOption = "train",
    src: SrcOption = None,
    tgt: TgtOption = None,
    top: TopOption = 20,
    sample: SampleOption = None,
    take_all: AllOption = False,
    translate: TranslateOption = False,
    near: NearOption = None,
    output: ResultOption = None,
    device: DeviceOption = "auto",
    model: ModelOption = None,
    overrides: DecodeSetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the pairs with the highest loss: noise in the corpus, or text that the model has not learned.

    The command scores a sample of the pairs like `mtkit score`, and sorts it by nats (-log-probability) per target
    token, with the end of sentence included. With --near, it sorts source sentences by the cosine between the means of
    the encoder's outputs over their tokens. Line numbers count from 1.
    """
    if (src is None) != (tgt is None):
        raise UsageError("give both --src and --tgt, or neither")
    if sample is not None and take_all:
        raise UsageError(f"--sample {sample} and --all exclude each other")
    if near is not None and translate:
        raise UsageError("--translate adds translations to the hardest pairs: leave out --near")

    if output is not None and as_json and output.suffix.lower() != ".json":
        raise UsageError(f"--json and --output {output}: name a .json file, or leave out --json")

    loaded = load_model(model, overrides)

    own_text = [] if src is None else [CorpusFiles(src=src, tgt=tgt, tag=loaded.config.decode.tag)]
    corpora = own_text or _corpora(loaded, part)

    from mtkit import runtime
    from mtkit.inspection import hard_pairs, neighbours
    from mtkit.pair_files import corpus_files

    corpus_files.check_distinct([("--output", output)], [path for corpus in corpora for path in corpus.paths])
    chosen = runtime.choose_device(device)
    if sample is None and near is None and not take_all:
        sample = corpus_choice.default_sample(corpora)
    with line_writer(output) as write:
        if near is not None:
            result = neighbours.nearest_sentences(loaded, near, corpora, top, device=chosen, sample=sample)
            result.skipped.report()
            log.info(f"{counted(result.n_pairs, 'pair')} searched")
            _Near(near, result).write(write, _form(output, as_json))
        else:
            ranking = hard_pairs.rank_pairs(loaded, corpora, top, device=chosen, sample=sample)
            ranking.skipped.report()
            log.info(_summary(ranking))
            hardest = (
                hard_pairs.with_own_translations(loaded, ranking.hardest, device=chosen)
                if translate
                else ranking.hardest
            )
            _Hard(ranking, hardest).write(write, _form(output, as_json))
    if output is not None:
        log_written(output)


def _corpora(files: BundleFiles, part: Part) -> list[CorpusFiles]:
    from mtkit.data import corpus

    data = files.config.data
    parts: dict[Part, list[CorpusFiles]] = {
        "train": [*data.train],
        "dev": [*data.dev],
        "test": [data.test] if data.test else [],
    }
    corpora, remedy = parts[part], "give --src and --tgt"
    if not corpora:
        raise DataError(f"{files.folder / 'config.yaml'}: no test set (data.test); {remedy}")
    corpus.require_files(f"data.{part}", corpora, config=files.folder / "config.yaml", remedy=remedy)
    return corpora


def _form(output: Path | None, as_json: bool) -> str:
    if output is not None:
        return output.suffix.lower()[1:]
    return "json" if as_json else "text"


class _Result:
    """A result that the command can write as JSON, TSV or text."""

    def write(self, write: Callable[[str], None], form: str) -> None:
        if form == "json":
            write(json.dumps(self.record(), indent=2, ensure_ascii=False))
            return
        for line in self.rows() if form == "tsv" else self.lines():
            write(line)

    def record(self) -> dict[str, Any]:
        raise NotImplementedError

    def rows(self) -> Iterator[str]:
        raise NotImplementedError

    def lines(self) -> Iterator[str]:
        raise NotImplementedError


class _Hard(_Result):
    """The hardest pairs."""

    def __init__(self, ranking: hard_pairs.Ranking, hardest: list[hard_pairs.HardPair]) -> None:
        self.ranking, self.hardest = ranking, hardest

    def record(self) -> dict[str, Any]:
        ranking = self.ranking
        return {
            "n_pairs": ranking.n_pairs,
            "n_scored": ranking.n_scored,
            "left_out": ranking.skipped.counts,
            "nats_per_token": _number(ranking.nats_per_token),
            "median": _number(ranking.median),
            "percentile_99": _number(ranking.percentile_99),
            "pairs": [_hard_record(rank, hard) for rank, hard in enumerate(self.hardest, start=1)],
        }

    def rows(self) -> Iterator[str]:
        columns = ["rank", "nats_per_token", "n_tokens", "file", "line", "worst_token", "worst_nats", "src", "tgt"]
        own = any(hard.own is not None for hard in self.hardest)
        yield "\t".join([*columns, *(["own_nats_per_token", "own_translation"] if own else [])])
        for record in self.record()["pairs"]:
            yield "\t".join(_cell(value) for value in record.values())

    def lines(self) -> Iterator[str]:
        for rank, hard in enumerate(self.hardest, start=1):
            pair = hard.pair
            yield (
                f"{rank:>4}. {hard.nats_per_token:.2f} nats a token, {counted(hard.n_tokens, 'token')}, "
                f"the worst {hard.worst_piece} {hard.worst_nats:.1f}   {pair.place}"
            )
            yield f"      {pair.src}"
            yield f"      {pair.tgt}"
            if hard.own is not None:
                yield f"      own: {hard.own.text} ({hard.own.nats_per_token:.2f})"


def _hard_record(rank: int, hard: hard_pairs.HardPair) -> dict[str, Any]:
    pair = hard.pair
    record = {
        "rank": rank,
        "nats_per_token": round(hard.nats_per_token, 4),
        "n_tokens": hard.n_tokens,
        "file": pair.file,
        "line": pair.line,
        "worst_token": hard.worst_piece,
        "worst_nats": round(hard.worst_nats, 4),
        "src": pair.src,
        "tgt": pair.tgt,
    }
    if hard.own is not None:
        record |= {"own_nats_per_token": round(hard.own.nats_per_token, 4), "own_translation": hard.own.text}
    return record


class _Near(_Result):
    """The nearest sentences."""

    def __init__(self, sentence: str, result: neighbours.NearSentences) -> None:
        self.sentence, self.result = sentence, result

    def record(self) -> dict[str, Any]:
        return {
            "sentence": self.sentence,
            "n_pairs": self.result.n_pairs,
            "left_out": self.result.skipped.counts,
            "nearest": [
                {
                    "rank": rank,
                    "cosine": round(near.cosine, 6),
                    "src": near.src,
                    "n_pairs": near.n_pairs,
                    "pairs": [{"file": pair.file, "line": pair.line, "tgt": pair.tgt} for pair in near.pairs],
                }
                for rank, near in enumerate(self.result.nearest, start=1)
            ],
        }

    def rows(self) -> Iterator[str]:
        yield "\t".join(["rank", "cosine", "n_pairs", "file", "line", "src", "tgt"])
        for rank, near in enumerate(self.result.nearest, start=1):
            for pair in near.pairs:
                values = [rank, round(near.cosine, 6), near.n_pairs, pair.file, pair.line, pair.src, pair.tgt]
                yield "\t".join(map(_cell, values))

    def lines(self) -> Iterator[str]:
        for rank, near in enumerate(self.result.nearest, start=1):
            yield f"{rank:>4}. {near.cosine:.4f}  {near.src}"
            for pair in near.pairs:
                yield f"              {pair.tgt}   {pair.place}"
            if more := near.n_pairs - len(near.pairs):
                yield f"              and {more:,} more pairs with this source"


def _summary(ranking: hard_pairs.Ranking) -> str:
    if not ranking.n_scored:
        return f"{counted(ranking.n_pairs, 'pair')}, none scored"
    return (
        f"{ranking.n_scored:,} of {counted(ranking.n_pairs, 'pair')} scored: {ranking.nats_per_token:.3f} nats a "
        f"token; of the pairs, half are below {ranking.median:.3f}, 99 % below {ranking.percentile_99:.3f}"
    )


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 6)


def _cell(value: object) -> str:
    """Format the value as a column of a TSV line."""
    return text_lines.as_column(str(value))

"""`mtkit data split`: split a corpus into train, dev and test that share no sentence."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.data.shared import CorporaArgument, LangsOption
from mtkit.cli.options import OUTPUT, JsonOption, check_new_folder
from mtkit.console import log
from mtkit.errors import DataError, UsageError
from mtkit.pair_files import lines

if TYPE_CHECKING:
    from mtkit.corpora import split as splitting

_DEFAULT_PAIRS, _DEFAULT_SHARE = 2000, 0.05
_PARTS = ("dev", "test")
_WHY = {
    "source": "source is in",
    "target": "target is in",
    "near source": "source is nearly in",
    "near target": "target is nearly in",
}

SizeOption = Annotated[
    str | None,
    typer.Option(
        metavar="N|P%", help="Number of pairs, or a share such as 1%. Default: 2000, or 5% of a small corpus."
    ),
]


def split(
    corpora: CorporaArgument,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            rich_help_panel=OUTPUT,
            help="New folder, which appears when all files are complete.",
        ),
    ],
    langs: LangsOption = None,
    dev: SizeOption = None,
    test: SizeOption = None,
    documents: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Hold out whole documents. Line n of this file names the document of pair n, counted through all "
            "corpora.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed that selects dev and test, independent of the order of the corpora.")
    ] = 1,
    as_json: JsonOption = False,
) -> None:
    """Split a corpus into train, dev and test that share no sentence, not even similar ones.

    The command keeps a pair out of train if its source or target also occurs in dev or test, apart from case,
    punctuation and numbers, or shares 70 % of its character 4-grams with a sentence there. It writes these pairs to
    left-out.tsv.gz with the reason, so nothing is lost. The folder also gets a config for training. dev and test are in
    random order, train keeps the order of the corpora. Clean the corpora first, because dev and test inherit their
    faults.
    """
    from mtkit.config.data import UNNAMED
    from mtkit.corpora import split as splitting
    from mtkit.corpora.cleaning import sources
    from mtkit.data import corpus as corpus_files

    check_new_folder(output, "--output")
    if dev is not None and re.fullmatch(r"0+(\.0+)?\s*%?", dev.strip()):
        raise UsageError("--dev 0: training needs dev to decide when to stop; use a few hundred pairs")
    wanted = {part: _parse_size(f"--{part}", text) for part, text in zip(_PARTS, (dev, test), strict=True)}
    files, languages = sources.find_corpora(corpora, langs)
    _check_file_endings(languages)
    sources.require_regular_files(files)  # it is read several times
    if languages == UNNAMED:
        log.warning(
            "the languages are unknown, so the files are called train.src, train.tgt and so on, and their config "
            "sets no languages; set both, for example with --langs en-de"
        )
    n_pairs = corpus_files.count_pairs(files)
    if not n_pairs:
        raise DataError(f"{' '.join(map(str, corpora))}: no pairs to split")
    sizes = {part: _size(value, n_pairs) for part, value in wanted.items()}
    report = splitting.split(
        lambda: corpus_files.read_pairs(files),
        output,
        languages,
        n_pairs=n_pairs,
        n_dev=sizes["dev"],
        n_test=sizes["test"],
        seed=seed,
        documents=None if documents is None else lambda: lines.read_lines(documents),
    )
    if as_json:
        print(json.dumps(asdict(report), ensure_ascii=False))
        return
    _print(report, n_pairs)
    config = output / splitting.config_name(output)
    print(f"\n{config}:\n\n{config.read_text(encoding='utf-8')}\nmtkit train {config}")


def _check_file_endings(languages: tuple[str, str]) -> None:
    """Check that the languages can serve as file extensions."""
    for code in languages:
        if not re.fullmatch(r"[\w-]+", code):
            raise UsageError(f"--langs: {code!r} is not a language code, such as de or pt-BR")


def _print(report: splitting.SplitReport, n_pairs: int) -> None:
    for name, n in (("train", report.train), ("dev", report.dev), ("test", report.test)):
        print(f"{name:<9} {n:>12,}  {n / n_pairs:>6.1%}")
    print(f"{'left out':<9} {sum(report.left_out.values()):>12,}  {1 - report.kept / n_pairs:>6.1%}")
    for reason, n in report.left_out.items():
        part, _, why = reason.partition(": ")
        print(f"  {n:>18,}  {_WHY[why]} {part}")


def _parse_size(option: str, text: str | None) -> int | float | None:
    """Parse a number of pairs or a share; None stands for the default."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d[\d_,]*)|(\d+(?:\.\d+)?)\s?%", text.strip(), re.ASCII)
    if match is None or (match[2] and float(match[2]) >= 100):
        raise UsageError(f"{option} {text}: use a number of pairs, such as 2000, or a share below 100%, such as 1%")
    return int(re.sub("[_,]", "", match[1])) if match[1] else float(match[2]) / 100


def _size(value: int | float | None, n_pairs: int) -> int:
    if value is None:
        return min(_DEFAULT_PAIRS, max(1, round(_DEFAULT_SHARE * n_pairs)))
    return value if isinstance(value, int) else max(1, round(value * n_pairs))

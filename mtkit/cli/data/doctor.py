"""`mtkit data doctor`: find where two line-aligned files get out of step, and repair them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.data.shared import LangsOption, files_named, plain_text
from mtkit.cli.options import OUTPUT, JsonOption, file_named
from mtkit.console import counted, log
from mtkit.errors import DataError, UsageError
from mtkit.pair_files.pairs import Languages

if TYPE_CHECKING:
    from mtkit.corpora.alignment import slip_report, slips


def doctor(
    src: Annotated[
        Path, typer.Argument(metavar="SRC", callback=plain_text, help="Source text; may end in .gz, .xz or .zst.")
    ],
    tgt: Annotated[Path, typer.Argument(metavar="TGT", help="Translation of the source text, line by line.")],
    fix: Annotated[
        bool, typer.Option("--fix", rich_help_panel=OUTPUT, help="Write the pairs that belong together to --output.")
    ] = False,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            callback=files_named,
            rich_help_panel=OUTPUT,
            help="With --fix: .tsv, .csv, .jsonl or .tmx; or twice, two text files, source first.",
        ),
    ] = None,
    aside: Annotated[
        Path | None,
        typer.Option(
            callback=file_named(),
            rich_help_panel=OUTPUT,
            help="With --fix: write lines without a partner to this TSV file. Default: the name of the source "
            "output with .aside.tsv.",
        ),
    ] = None,
    langs: LangsOption = None,
    show: Annotated[
        int,
        typer.Option(
            min=0,
            rich_help_panel=OUTPUT,
            help="Number of slips of each kind to show with their text; of the others "
            "the command shows only line numbers.",
        ),
    ] = 5,
    as_json: JsonOption = False,
) -> None:
    """Find where line n of one file stops being the translation of line n of the other.

    It finds lines that are missing or extra on one side, two lines merged into one, blocks that have moved, lines with
    source and target swapped, and passages that do not look like translations. It needs no model: it compares lengths,
    numbers, punctuation, words with similar spelling, and a lexicon that it learns from the files, which takes a few
    hundred lines. The exit code is 1 if there are slips and --fix is not given.
    """
    from mtkit.corpora.alignment import slip_report, slips
    from mtkit.corpora.cleaning import sources

    sources.check_text_files(src, tgt)
    languages = sources.languages_of(src, tgt, langs)
    repair = _repair_to(output or [], aside, languages, (src, tgt)) if _wants_repair(fix, output, aside) else None
    files = slip_report.TwoFiles.read(src, tgt)
    diagnosis = slips.diagnose(*files.lines, progress=lambda stage: log.info(f"looking for {stage}"))
    if not diagnosis.is_related:
        raise DataError(slip_report.not_related(files, diagnosis))

    if as_json:
        print(json.dumps(slip_report.record(diagnosis, files), ensure_ascii=False))
    else:
        _print(diagnosis, files, show)
    if repair:
        _write(diagnosis, files, repair, languages)
    elif diagnosis.slips:
        raise typer.Exit(1)


@dataclass(frozen=True)
class _Repair:
    """The files that --fix writes: the pairs, and the lines without a partner."""

    outputs: list[Path]
    aside: Path


def _wants_repair(fix: bool, outputs: list[Path] | None, aside: Path | None) -> bool:
    if fix != bool(outputs):
        raise UsageError("--fix and --output need each other: --fix -o FIXED.SRC -o FIXED.TGT, or --fix -o FIXED.tsv")
    if aside and not fix:
        raise UsageError(f"--aside {aside} needs --fix; without --fix, the command writes nothing")
    return fix


def _repair_to(outputs: list[Path], aside: Path | None, languages: Languages, inputs: tuple[Path, Path]) -> _Repair:
    """Check the output files before the work begins."""
    from mtkit.pair_files import corpus_files

    corpus_files.check_outputs(outputs, languages)
    aside = aside or outputs[0].with_name(f"{outputs[0].name}.aside.tsv")
    corpus_files.check_distinct([*(("--output", path) for path in outputs), ("--aside", aside)], inputs)
    return _Repair(outputs, aside)


def _write(diagnosis: slips.Diagnosis, files: slip_report.TwoFiles, repair: _Repair, languages: Languages) -> None:
    from mtkit.corpora.alignment import slip_report

    n_pairs = slip_report.write_repaired(diagnosis, files, repair.outputs, repair.aside, languages)
    n_src, n_tgt = map(len, diagnosis.unplaced())
    log.info(
        f"{' '.join(map(str, repair.outputs))}: {counted(n_pairs, 'pair')}; left aside in {repair.aside}: "
        f"{counted(n_src, 'line')} of {files.paths[0]}, {n_tgt:,} of {files.paths[1]}"
    )


def _print(diagnosis: slips.Diagnosis, files: slip_report.TwoFiles, show: int) -> None:
    from mtkit.corpora.alignment import slip_report

    counts = Counter(slip.kind for slip in diagnosis.slips)
    kinds = ", ".join(f"{n:,} {kind}" for kind, n in counts.most_common())
    sizes = [f"{name} ({n:,} lines)" for name, n in zip(files.names, (diagnosis.n_src, diagnosis.n_tgt), strict=True)]
    print(f"{' and '.join(sizes)}: {f'slips: {kinds}' if kinds else 'no slips'}")
    rest: dict[str, list[slips.Slip]] = {kind: [] for kind in counts}
    shown: Counter[str] = Counter()
    for slip in diagnosis.slips:
        if shown[slip.kind] == show:
            rest[slip.kind].append(slip)
            continue
        shown[slip.kind] += 1
        print()
        for line in slip_report.describe(slip, files):
            print(line)
    others = [of_kind for of_kind in rest.values() if of_kind]
    for of_kind in others:
        print()
        for line in slip_report.listed(of_kind, files):
            print(line)
    if others:
        print("\nuse --show N to see N slips of each kind with their text")

"""`mtkit doctor`: check that decoding is exact and that training resumes exactly."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.options import MODEL, OUTPUT, TEXT, DecodeSetOption, DeviceOption, JsonOption, ModelOption
from mtkit.console import counted, log, progress_bar
from mtkit.errors import DataError, UsageError
from mtkit.pair_files import lines as text_lines

if TYPE_CHECKING:
    from mtkit import bundle
    from mtkit.config.data import CorpusFiles
    from mtkit.runs import replay
    from mtkit.translation import consistency


def _one_of(option: str, *names: str) -> Callable[[list[str] | None], list[str] | None]:
    """Return a check of an option that users may repeat."""

    def check(values: list[str] | None) -> list[str] | None:
        for value in values or ():
            if value not in names:
                raise UsageError(f"{option} {value}: not one of {', '.join(names)}")
        return values

    return check


SrcOption = Annotated[
    Path | None,
    typer.Option(rich_help_panel=TEXT, help="Text to translate. Default: the config's test set, else its dev set."),
]
LinesOption = Annotated[
    int, typer.Option("--n", min=1, rich_help_panel=TEXT, help="Translate at most N lines, evenly spaced.")
]
CheckOption = Annotated[
    list[str] | None,
    typer.Option(
        "--check",
        metavar="NAME",
        callback=_one_of("--check", "batch", "order", "cache", "n-best"),
        help="Vary this: batch, order, cache or n-best; repeat for several. Default: all.",
    ),
]
BeamSizesOption = Annotated[
    list[int] | None,
    typer.Option(
        "--beam-size",
        min=1,
        max=1000,
        rich_help_panel=MODEL,
        help="Beam size to compare at; repeat for several. Default: 1 and 4.",
    ),
]
PrecisionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--precision",
        metavar="NAME",
        callback=_one_of("--precision", "bf16", "int8"),
        help="Also count the lines that differ in this precision, bf16 or int8; repeat for both.",
    ),
]
ShowOption = Annotated[
    int, typer.Option(min=0, rich_help_panel=OUTPUT, help="Number of differences to show for each comparison.")
]


def decode(
    model: ModelOption = None,
    src: SrcOption = None,
    n: LinesOption = 200,
    checks: CheckOption = None,
    beam_sizes: BeamSizesOption = None,
    precisions: PrecisionOption = None,
    overrides: DecodeSetOption = None,
    show: ShowOption = 10,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Decode lines in several ways that must give the same translations, and show any differences.

    In fp32, the command compares batches of 64 with batches of 1 and 7, sorted and shuffled input, decoding without a
    cache, and n-best lists. The exit code is 1 if a line differs.
    """
    from mtkit import bundle

    folder = bundle.find_model(model)
    files = bundle.read_bundle(folder, overrides or ())
    if src is None:
        corpus = _corpus(files)
        files = bundle.read_bundle(folder, [f"decode.tag={corpus.tag or 'null'}", *(overrides or ())])
    lines = _lines(src or corpus, n)
    log.info(f"model: {files.folder}; {counted(len(lines), 'line')}")

    from mtkit import runtime
    from mtkit.translation import consistency

    beams, checked, others = beam_sizes or [1, 4], checks or consistency.CHECKS, precisions or ()
    comparisons = []
    with progress_bar(
        consistency.n_decoded(len(lines), beams, checked, others), "decoding", "line", smoothing=0
    ) as bar:
        runtime.set_threads(files.config.decode.threads)
        done = consistency.examine(
            bundle.Bundle(**vars(files), model=bundle.load_model(files)),
            lines,
            device=str(runtime.choose_device(device)),
            beam_sizes=beams,
            checks=checked,
            precisions=others,
            max_differences=show,
            advance=bar.update,
        )
        for comparison in done:
            comparisons.append(comparison)
            bar.set_postfix_str(f"{sum(c.n_different for c in comparisons if c.must_agree)} differ", refresh=False)
    faults = sum(comparison.n_different for comparison in comparisons if comparison.must_agree)
    if as_json:
        result = {"model": str(files.folder), "n_lines": len(lines), "exact": not faults}
        print(
            json.dumps(
                {**result, "comparisons": [asdict(comparison) for comparison in comparisons]},
                indent=2,
                ensure_ascii=False,
            )
        )
    else:
        _print_report(comparisons)
    if faults:
        raise typer.Exit(1)


def resume(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, which the command does not change.")],
    steps: Annotated[
        int | None, typer.Option(min=1, help="Replay at most N steps; with fewer steps, the command compares less.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Repeat the steps between a run's two newest checkpoints, and show any differences.

    The command compares weights, optimizer, state and metrics, except times, bit for bit. The exit code is 1 if
    anything differs.
    """
    from mtkit.runs import replay

    result = replay.replay(run, steps)
    if as_json:
        print(json.dumps({**asdict(result), "run_dir": str(run), "equal": result.is_equal}, indent=2))
    else:
        _print_replay(result)
    if not result.is_equal:
        raise typer.Exit(1)


def _print_replay(result: replay.Replay) -> None:
    print(f"{result.run_dir}: repeated steps {result.first_step + 1} to {result.last_step}")
    print(f"{'':<16}{'run':<18}{'replay':<18}")
    for part in result.parts:
        outcome = "equal" if part.difference is None else "DIFFERS"
        print(f"{part.name:<16}{part.recorded[:16]:<18}{part.replayed[:16]:<18}{outcome}")
    for part in result.parts:
        if part.difference is not None:
            print(f"{part.name}: {part.difference}")
    if result.is_equal and result.is_complete:
        print("equal: resuming reproduces this run bit for bit")
        return
    if result.is_equal:
        print(f"equal in the lines of metrics.jsonl; a replay compares weights only at step {result.newest_step}")
        return
    for cause in result.causes:
        print(f"likely cause: {cause}")
    if not result.causes:
        print(
            "torch, device, precision, threads and data are the same. Possible causes: another process on the same "
            "GPU, or another version of mtkit that changed the run. Otherwise this is a bug: please report it"
        )


def _lines(text: Path | CorpusFiles, n: int) -> list[tuple[int, str]]:
    """Return the lines to translate, with their line numbers."""
    from mtkit.data import corpus as corpora

    if isinstance(text, Path):
        name, n_lines, texts = str(text), text_lines.count_lines(text), text_lines.read_lines(text)
    else:
        name, n_lines, texts = corpora.corpus_name(text), corpora.count_pairs([text]), corpora.read_side([text], "src")
    if not n_lines:
        raise DataError(f"{name}: no lines to translate")
    wanted = set(corpora.evenly_spaced(range(n_lines), n))
    return [(index + 1, text) for index, text in enumerate(texts) if index in wanted]


def _corpus(files: bundle.BundleFiles) -> CorpusFiles:
    """Return the config's test set, or else its dev set, if the files exist."""
    from mtkit.data import corpus as corpora

    data = files.config.data
    candidates = [corpus for corpus in (data.test, *data.dev) if corpus is not None]
    for corpus in candidates:
        if corpora.first_missing([corpus]) is None:
            return corpus
    names = map(corpora.corpus_name, candidates)
    raise DataError(
        f"{files.folder / 'config.yaml'} sets {' and '.join(names)} as test and dev sets, but these files do not "
        "exist; give text in the source language with --src"
    )


def _print_report(comparisons: Sequence[consistency.Comparison]) -> None:
    for comparison in comparisons:
        for difference in comparison.differences:
            _print_difference(comparison, difference)
    print(f"{'beam':<6}{'compared with batches of 64':<30}{'lines':>8}{'differ':>8}{'seconds':>9}")
    for comparison in comparisons:
        print(
            f"{comparison.beam_size:<6}{comparison.name:<30}{comparison.n_lines:>8,}{comparison.n_different:>8,}"
            f"{comparison.seconds:>9.1f}{'' if comparison.must_agree else '  (may differ)'}"
        )
    faults = [comparison for comparison in comparisons if comparison.must_agree and comparison.n_different]
    print("exact: no line differs" if not faults else f"NOT exact: {len(faults)} of {len(comparisons)} ways differ")


def _print_difference(comparison: consistency.Comparison, difference: consistency.Difference) -> None:
    print(f"line {difference.line}, beam {comparison.beam_size}: {difference.src}")
    outputs = ("batches of 64", difference.reference), (comparison.name, difference.other)
    for name, output in outputs:
        print(f"  {name}: {output.text}  (score {output.score:.6f})")
    pairs = itertools.zip_longest(difference.reference.pieces, difference.other.pieces, fillvalue="-")
    position, pieces = next((at, pair) for at, pair in enumerate(pairs, start=1) if pair[0] != pair[1])
    print(f"  first different token: {position}: {pieces[0]} | {pieces[1]}")
    print()

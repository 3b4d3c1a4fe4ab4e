"""`mtkit doctor`: do a model and a run do what mtkit promises?"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit import bundle, runtime
from mtkit.cli.options import DecodeSetOption, DeviceOption, ModelOption
from mtkit.console import log, progress_bar
from mtkit.data import corpus as corpora
from mtkit.errors import DataError, UsageError
from mtkit.runs import replay
from mtkit.translation import consistency

if TYPE_CHECKING:
    from mtkit.config.schema import CorpusFiles


def _one_of(option: str, *names: str) -> Callable[[list[str] | None], list[str] | None]:
    """What checks an option that can be repeated."""

    def check(values: list[str] | None) -> list[str] | None:
        for value in values or ():
            if value not in names:
                raise UsageError(f"{option} {value}: not one of {', '.join(names)}")
        return values

    return check


SrcOption = Annotated[
    Path | None, typer.Option(help="Text to translate; default: the test set, else the dev set, of the config.")
]
CheckOption = Annotated[
    list[str] | None,
    typer.Option(
        "--check",
        callback=_one_of("--check", "batch", "order", "cache", "n-best"),
        help="What is varied: batch, order, cache or n-best; repeat as needed. Default: all.",
    ),
]
BeamSizesOption = Annotated[
    list[int] | None, typer.Option("--beam-size", min=1, help="Repeat as needed. Default: 1 and 4.")
]
PrecisionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--precision",
        callback=_one_of("--precision", "bf16", "int8"),
        help="bf16 or int8: also count the lines that differ in this precision; repeat as needed.",
    ),
]


def decode(
    model: ModelOption = None,
    src: SrcOption = None,
    n: Annotated[int, typer.Option("--n", min=1, help="Lines of it, at equal distances.")] = 200,
    checks: CheckOption = None,
    beam_sizes: BeamSizesOption = None,
    precisions: PrecisionOption = None,
    overrides: DecodeSetOption = None,
    show: Annotated[int, typer.Option(min=0, help="Differences shown of each comparison.")] = 10,
    device: DeviceOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON.")] = False,
) -> None:
    """Decode lines in ways that must not matter, and show where the translations differ after all.

    Batches of 1 and 7, sorted and shuffled input, no cache (all that was said is decoded anew for each token) and
    n-best lists are compared with batches of 64, in fp32. Exit code 1 if any line differs.
    """

    folder = bundle.find_model(model)
    files = bundle.read_bundle(folder, overrides or ())
    if src is None:
        corpus = _corpus(files)
        files = bundle.read_bundle(folder, [f"decode.tag={corpus.tag or 'null'}", *(overrides or ())])
    lines = _lines(src or corpus, n)
    log.info(f"model: {files.folder}; {len(lines):,} lines")
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
    run: Annotated[Path, typer.Argument(help="Folder of a run; it is only read.")],
    steps: Annotated[
        int | None, typer.Option(min=1, help="Replay at most so many steps; compares less if that is not all.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON.")] = False,
) -> None:
    """Make the steps between a run's two newest checkpoints again, and show whether the outcome is the same.

    Weights, optimizer, state and metrics are compared bit for bit, times left out. Exit code 1 if anything differs.
    """

    result = replay.replay(run, steps)
    if as_json:
        print(json.dumps({**asdict(result), "run_dir": str(run), "equal": result.is_equal}, indent=2))
    else:
        _print_replay(result)
    if not result.is_equal:
        raise typer.Exit(1)


def _print_replay(result: replay.Replay) -> None:
    print(f"{result.run_dir}: steps {result.first_step + 1} to {result.last_step} made again")
    print(f"{'':<16}{'run':<18}{'replay':<18}")
    for part in result.parts:
        outcome = "equal" if part.difference is None else "DIFFERS"
        print(f"{part.name:<16}{part.recorded[:16]:<18}{part.replayed[:16]:<18}{outcome}")
    for part in result.parts:
        if part.difference is not None:
            print(f"{part.name}: {part.difference}")
    if result.is_equal and result.is_complete:
        print("equal: resuming gives this run bit for bit")
        return
    if result.is_equal:
        print(f"equal as far as lines of metrics.jsonl tell; weights are compared at step {result.newest_step} only")
        return
    for cause in result.causes:
        print(f"likely cause: {cause}")
    if not result.causes:
        print(
            "torch, device, precision, threads and data are what they were: if another process used the same GPU, or "
            "the run was changed by another version of mtkit, that may be it; else this is a defect: please report it"
        )


def _lines(text: Path | CorpusFiles, n: int) -> list[tuple[int, str]]:
    """The lines to translate, with their numbers."""

    if isinstance(text, Path):
        name, n_lines, texts = str(text), corpora.count_lines(text), corpora.read_lines(text)
    else:
        name, n_lines, texts = corpora.corpus_name(text), corpora.count_pairs([text]), corpora.read_side([text], "src")
    if not n_lines:
        raise DataError(f"{name}: no lines to translate")
    wanted = set(corpora.evenly_spaced(range(n_lines), n))
    return [(number + 1, text) for number, text in enumerate(texts) if number in wanted]


def _corpus(files: bundle.BundleFiles) -> CorpusFiles:
    """The test set, or the dev set, that is there."""

    data = files.config.data
    for corpus in (data.test, data.dev):
        if corpus is not None and corpora.first_missing([corpus]) is None:
            return corpus
    names = [str(corpus.tsv or corpus.src) for corpus in (data.test, data.dev) if corpus is not None]
    raise DataError(
        f"{files.folder / 'config.yaml'} names {' and '.join(names)} as test and dev sets, and they are not here; "
        "give some text in the source language with --src"
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

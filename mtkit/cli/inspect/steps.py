"""`mtkit inspect steps`: show the decoding loop step by step."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.inspect.shared import (
    SentenceArgument,
    TargetOption,
    load_subject,
    log_written,
    number,
    pair_record,
    print_pair,
    short_bar,
)
from mtkit.cli.options import DecodeSetOption, JsonOption, ModelOption, output_option
from mtkit.errors import UsageError

if TYPE_CHECKING:
    from mtkit.inspection import steps

_BAR = 30  # characters that a probability of 1 fills


def show_steps(
    sentence: SentenceArgument,
    top: Annotated[
        int, typer.Option("--top", "-n", min=1, help="Number of likeliest next tokens to show at each step.")
    ] = 5,
    target: TargetOption = None,
    beam_size: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="Follow the best hypothesis of a beam search. Default: 1, greedy search."),
    ] = None,
    output: Annotated[
        Path | None,
        output_option(suffixes=(".html",), help="Also draw the result in this .html page."),
    ] = None,
    model: ModelOption = None,
    overrides: DecodeSetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the decoding loop from <start> to <end>: the likeliest next tokens, and the chosen one.

    Each step computes the whole prefix again and checks two things, up to rounding. First, the distributions of earlier
    positions stay the same while the prefix grows. Second, the engine, which caches earlier positions and computes only
    the newest, gives the same distributions. The exit code is 1 if a check fails.
    """
    if target is not None and beam_size is not None:
        raise UsageError("--target gives the translation, so there is no search: leave out --beam-size")

    subject = load_subject(model, overrides)

    pair = subject.pair(sentence, target=target, beam_size=beam_size or 1)

    from mtkit.inspection import steps

    with short_bar(len(pair.tgt.ids), "decoding", "step") as bar:
        result = steps.decoding_steps(subject, pair, n_best=top, advance=bar.update)
    if output is not None:
        steps.write_steps_page(output, result)
        log_written(output)
    if as_json:
        print(json.dumps(_record(result), indent=2, ensure_ascii=False))
    else:
        _print(result)
    if not (result.prefix_holds and result.cache_agrees):
        raise typer.Exit(1)


def _print(result: steps.DecodingSteps) -> None:
    from mtkit.inspection import steps

    print_pair(result.pair)

    widths = len(str(max(step.rank for step in result.steps))), steps.longest_piece(result)
    for n, step in enumerate(result.steps, start=1):
        print(f"\nstep {n}: {' '.join(step.prefix)}")
        for rank, guess in enumerate(step.best, start=1):
            _print_guess(guess, rank, step, widths)
        if step.rank > len(step.best):
            _print_guess(step.chosen, step.rank, step, widths)
        if n > 1:
            print(f"  earlier distributions changed by at most {step.moved:.1e} nats")
    print(f"\nlog-probability of the translation: {result.log_prob:.4f}")
    for what, figure, holds in _checks(result):
        print(f"{'holds ' if holds else 'BROKEN'}  {what}: {figure}")


def _print_guess(guess: steps.Guess, rank: int, step: steps.Step, widths: tuple[int, int]) -> None:
    from mtkit.inspection import steps

    chosen = "<- chosen" if rank == step.rank else ""
    bar = "\u2588" * round(guess.probability * _BAR) or "\u258f"
    figure = steps.shown_probability(guess.probability)
    print(f"  {rank:>{widths[0]}} {guess.piece:<{widths[1]}}  {figure:<6}  {bar:<{_BAR}} {chosen}".rstrip())


def _checks(result: steps.DecodingSteps) -> list[tuple[str, str, bool]]:
    from mtkit.inspection import steps

    def figure(difference: float) -> str:
        return f"largest difference {difference:.1e} nats (tolerance {steps.TOLERANCE:.0e})"

    return [
        ("earlier distributions do not change while the prefix grows", figure(result.moved), result.prefix_holds),
        (
            "the engine's cached decoding gives the same distributions",
            figure(result.cached_differs),
            result.cache_agrees,
        ),
    ]


def _record(result: steps.DecodingSteps) -> dict[str, object]:
    from mtkit.inspection import steps

    rows = [
        {**asdict(step), "moved": number(step.moved), "cached_differs": number(step.cached_differs)}
        for step in result.steps
    ]
    checks = {
        "tolerance": steps.TOLERANCE,
        "prefix": {"largest_difference": number(result.moved), "holds": result.prefix_holds},
        "cache": {"largest_difference": number(result.cached_differs), "holds": result.cache_agrees},
    }
    return {**pair_record(result.pair), "log_prob": number(result.log_prob), "steps": rows, "checks": checks}

"""`mtkit inspect saliency`: show which source tokens each token of a translation, or a label, depends on."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mtkit.cli.inspect.shared import (
    DrawingOption,
    SentenceArgument,
    TargetOption,
    load_any_subject,
    log_written,
    pair_record,
    print_pair,
    short_bar,
)
from mtkit.cli.options import BeamSizeOption, DecodeSetOption, JsonOption, ModelOption
from mtkit.errors import UsageError

if TYPE_CHECKING:
    from mtkit.inspection import saliency, sentence_pair


def show_saliency(
    sentence: SentenceArgument,
    top: Annotated[
        int | None,
        typer.Option(
            "--top",
            "-n",
            min=1,
            help="Number of source tokens to show for each target token. Default: 2; for a classifier, all.",
        ),
    ] = None,
    erase: Annotated[
        Literal["pad", "unk", "omit"],
        typer.Option(help="How to erase a source token: mask it in place, replace it by <unk>, or leave it out."),
    ] = "pad",
    layer: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Show the attention of this decoder layer, or encoder layer of a classifier. Default: the decoder "
            "layer that aligns best, or the last encoder layer.",
        ),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="For a classifier: explain this label. Default: the likeliest.")
    ] = None,
    target: TargetOption = None,
    beam_size: BeamSizeOption = None,
    output: DrawingOption = None,
    model: ModelOption = None,
    overrides: DecodeSetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which source tokens each token of a translation, or the label of a classifier, depends on.

    The command shows three measures. Erasure is the number of nats by which the log-probability of the target token
    falls without the source token. Gradient x input is the rate at which that log-probability rises with the length of
    the source token's embedding. Attention is the weight of the cross-attention. The first two may be negative. The
    alignment links words by that attention.

    For a label, the command uses its log-odds, log(p / (1 - p)), and the attention of <start>, from which the model
    predicts the label.
    """
    if target is not None and beam_size is not None:
        raise UsageError("--target gives the translation, so there is no search: leave out --beam-size")

    subject = load_any_subject(model, overrides)

    pair = _pair(subject, sentence, target, label, beam_size)

    from mtkit.inspection import saliency, sentence_pair

    if output is not None:
        sentence_pair.check_drawable(pair)  # before the work
    result = _measure(subject, pair, erase, layer)
    if output is not None:
        saliency.draw_saliency(output, result)
        log_written(output)
    if as_json:
        print(json.dumps(_record(result), indent=2, ensure_ascii=False))
    elif result.is_of_label:
        _print_label(result, top)
    else:
        _print(result, 2 if top is None else top)


def _pair(
    subject: sentence_pair.Subject | sentence_pair.ClassifierSubject,
    sentence: str,
    target: str | None,
    label: str | None,
    beam_size: int | None,
) -> sentence_pair.SentencePair:
    from mtkit.inspection import sentence_pair

    if isinstance(subject, sentence_pair.ClassifierSubject):
        if beam_size is not None:
            raise UsageError(
                "--beam-size applies to a translator's search, but the model is a classifier; leave it out"
            )
        return subject.pair(sentence, target, label)
    if label is not None:
        raise UsageError("--label needs a classifier, but the model is a translator; use --target")
    return subject.pair(sentence, target=target, beam_size=beam_size)


def _measure(
    subject: sentence_pair.Subject | sentence_pair.ClassifierSubject,
    pair: sentence_pair.SentencePair,
    erase: saliency.Erasure,
    layer: int | None,
) -> saliency.Saliency:
    from mtkit.inspection import saliency, sentence_pair

    with short_bar(len(pair.tgt.ids), "measuring", "token") as bar:
        if isinstance(subject, sentence_pair.ClassifierSubject):
            measure = partial(saliency.measure_label_saliency, subject)
        else:
            measure = partial(saliency.measure_saliency, subject)
        return measure(pair, erased_by=erase, layer=layer, advance=bar.update)


def _print_label(result: saliency.Saliency, top: int | None) -> None:
    """Print each token with its three values, in the order of the text; or the strongest ones by erasure."""
    from mtkit.inspection import saliency

    pair, maps = result.pair, saliency.heat_maps(result)
    print(pair.src.text)
    print(f"evidence for {pair.tgt.text} ({pair.chosen_by}): positive values speak for it, negative ones against it")
    if result.likeliest:
        print(f"the likeliest label is {result.likeliest}")
    [erasure] = result.erasure
    shown = list(range(len(pair.src.ids)))
    if top is not None:
        shown = sorted(shown, key=lambda s: -abs(erasure[s]))[:top]
    table = [["token", *(heat_map.name for heat_map in maps)]]
    for s in shown:
        table.append([pair.src.pieces[s], *(f"{heat_map.values[0][s]:z.{heat_map.digits}f}" for heat_map in maps)])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    print()
    for piece, *values in table:
        numbers = (f"{value:>{width}}" for value, width in zip(values, widths[1:], strict=True))
        print("   ".join([f"{piece:<{widths[0]}}", *numbers]))


def _print(result: saliency.Saliency, top: int) -> None:
    from mtkit.inspection import saliency

    print_pair(result.pair)
    print("alignment   " + "  ".join(f"{src}\u2013{tgt}" for src, tgt in result.word_links()))
    maps = saliency.heat_maps(result)
    table = [["", "log-prob", *(heat_map.name for heat_map in maps)]]
    for t, piece in enumerate(result.pair.tgt.pieces):
        rows = [(heat_map.values[t], heat_map.digits) for heat_map in maps]
        table.append([piece, f"{result.log_probs[t]:.3f}", *(_strongest(result, row, top, d) for row, d in rows)])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    print()
    for line in table:
        print("   ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())


def _strongest(result: saliency.Saliency, row: list[float], top: int, digits: int) -> str:
    """Return the source tokens with the largest absolute values."""
    order = sorted(range(len(row)), key=lambda s: -abs(row[s]))[:top]
    return "  ".join(f"{result.pair.src.pieces[s]} {row[s]:.{digits}f}" for s in order)


def _record(result: saliency.Saliency) -> dict[str, object]:
    return {
        **pair_record(result.pair),
        "log_probs": result.log_probs,
        "erased_by": result.erased_by,
        "erasure": result.erasure,
        "gradient_times_input": result.gradient,
        "attention": {"layer": result.layer, "weights": result.attention},
        **({} if result.is_of_label else {"alignment": result.alignment}),
    }

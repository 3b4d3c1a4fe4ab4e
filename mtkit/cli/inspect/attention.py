"""`mtkit inspect attention`: show what each head of each layer looks at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mtkit.cli.inspect.shared import (
    DrawingOption,
    SentenceArgument,
    TargetOption,
    load_any_subject,
    log_written,
    pair_record,
)
from mtkit.cli.options import DecodeSetOption, JsonOption, ModelOption

if TYPE_CHECKING:
    from mtkit.inspection import trace as traces

KindOption = Annotated[
    Literal["encoder", "decoder", "cross"] | None,
    typer.Option("--kind", help="Show only encoder or decoder self-attention, or cross-attention."),
]


def show_attention(
    text: SentenceArgument,
    kind: KindOption = None,
    layer: Annotated[int | None, typer.Option(min=1, help="Show only this layer, counted from 1.")] = None,
    head: Annotated[int | None, typer.Option(min=1, help="Show only this head, counted from 1.")] = None,
    target: TargetOption = None,
    output: DrawingOption = None,
    model: ModelOption = None,
    overrides: DecodeSetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what each head of each layer looks at while the model translates, or classifies, a sentence.

    The terminal shows a table of shades: by default the mean of the heads in the cross-attention layer that aligns
    best. For a classifier it shows the last layer, whose row <start> decides the label. Pictures, pages and JSON hold
    every kind, layer and head, unless these options select some.
    """
    subject = load_any_subject(model, overrides)

    pair = subject.pair(text, target=target)

    from mtkit.inspection import attention_views, sentence_pair
    from mtkit.inspection import trace as traces

    trace = (
        traces.trace_classifier(subject.model, pair)
        if isinstance(subject, sentence_pair.ClassifierSubject)
        else traces.trace_pair(subject.model, pair)
    )
    chosen = trace.chosen([kind] if kind else [], layer, head)
    if output is not None or not as_json:
        sentence_pair.check_drawable(trace.pair)
    if output is not None:
        _draw(output, chosen)
        log_written(output)
    if as_json:
        print(
            json.dumps(
                {**pair_record(trace.pair), "attention": attention_views.attention_record(chosen)}, ensure_ascii=False
            )
        )
    else:
        tables = attention_views.attention_tables(trace, kind, layer, head)
        sure = f" ({pair.chosen_by})" if trace.is_classifier else ""
        print(f"{pair.src.text}\n{pair.tgt.text}{sure}\n\n{tables}")


def _draw(output: Path, trace: traces.AttentionTrace) -> None:
    from mtkit.inspection import attention_views

    if output.suffix.lower() == ".html":
        attention_views.write_attention_page(output, trace)
    else:
        attention_views.write_attention_picture(output, trace)

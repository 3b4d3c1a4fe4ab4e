"""`mtkit inspect attention`: a sentence in; who looked at what, in every layer and head, out."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mtkit.cli.inspect.drawing import DrawingOption, say_written
from mtkit.cli.inspect.sentence import JsonOption, SentenceArgument, TargetOption, load_subject, pair_record
from mtkit.cli.options import DecodeSetOption, ModelOption

if TYPE_CHECKING:
    from mtkit.inspection.trace import AttentionTrace

KindOption = Annotated[
    Literal["encoder", "decoder", "cross"] | None,
    typer.Option("--kind", help="Encoder or decoder self-attention, or cross-attention, only."),
]


def attention(
    text: SentenceArgument,
    kind: KindOption = None,
    layer: Annotated[int | None, typer.Option(min=1, help="This layer only, from 1.")] = None,
    head: Annotated[int | None, typer.Option(min=1, help="This head only, from 1.")] = None,
    target: TargetOption = None,
    output: DrawingOption = None,
    model: ModelOption = None,
    overrides: DecodeSetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what each head of each layer looks at while the model translates a sentence.

    In the terminal a table of shades: without --kind and --layer of the cross-attention that best shows what is
    translated, without --head the mean of all heads. Pictures, pages and JSON hold every kind, layer and head that
    these options do not leave out.
    """
    subject = load_subject(model, overrides)

    from mtkit.inspection.attention_views import attention_record, attention_tables
    from mtkit.inspection.trace import check_drawable, trace_pair

    trace = trace_pair(subject.model, subject.pair(text, target=target))
    chosen = trace.chosen([kind] if kind else [], layer, head)
    if output is not None or not as_json:
        check_drawable(trace)
    if output is not None:
        _draw(output, chosen)
        say_written(output)
    if as_json:
        print(json.dumps({**pair_record(trace.pair), "attention": attention_record(chosen)}, ensure_ascii=False))
    else:
        print(f"{trace.pair.src.text}\n{trace.pair.tgt.text}\n\n{attention_tables(trace, kind, layer, head)}")


def _draw(output: Path, trace: "AttentionTrace") -> None:
    if output.suffix.lower() == ".html":
        from mtkit.inspection.attention_views import write_attention_page

        write_attention_page(output, trace)
    else:
        from mtkit.inspection.attention_views import write_attention_picture

        write_attention_picture(output, trace)

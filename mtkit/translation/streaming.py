"""One text in, its translation out piece by piece, while it is being searched for; what is out is never taken back."""

import itertools
from collections.abc import Callable, Sequence

from mtkit.data.corpus import as_one_line
from mtkit.engines.native import NativeEngine
from mtkit.errors import MtkitError
from mtkit.search.hypothesis import Hypothesis
from mtkit.translation.translator import Translator

_BROKEN = "\ufffd"  # what decoding gives for the first bytes of a character whose others are to come


def translate_live(
    translator: Translator, text: str, emit: Callable[[str], None], line: int | None = None
) -> tuple[str, bool]:
    """The text's translation; emit is given each part of it as soon as no hypothesis disagrees about it.

    Also returns whether it is finished: False if the length limit ended it, or a segment of it. What is out is not
    taken back, so nobody looks whether it is suspect.

    The parts add up to the translation. With greedy search they are single tokens; a beam holds back what its
    hypotheses do not have in common. A text that is too long comes segment by segment.
    line: the text's number, for a message about that; none: no message.
    Raises MtkitError with an engine or settings that cannot be watched.
    """
    engine = translator.engine
    if not isinstance(engine, NativeEngine):
        raise MtkitError(f"the {engine.name} engine cannot be watched; use decode.engine=native")
    if translator.decode.mbr_samples or translator.terminology:
        raise MtkitError("tokens are streamed from a plain search only; leave mbr_samples and terminology out")
    parts: list[str] = []
    finished = True
    segments, _ = translator.segments([as_one_line(text).strip()], translator.decode, first_line=line)
    for segment in segments:
        start = " " if any(parts) else ""
        shown = ""

        def show(found: str, start: str = start) -> None:
            nonlocal shown
            if len(found) > len(shown) and found.startswith(shown):
                emit((start if not shown else "") + found[len(shown) :])
                shown = found

        def watch(hypotheses: Sequence[Sequence[int]]) -> None:
            show(_certain(_decoded(translator, _common_prefix(hypotheses))))

        hypothesis: Hypothesis = engine.watch(segment, translator.decode, watch)
        whole = _decoded(translator, hypothesis.ids).strip()
        show(whole)
        parts.append(whole)
        finished = finished and hypothesis.finished
    return " ".join(part for part in parts if part), finished


def _common_prefix(hypotheses: Sequence[Sequence[int]]) -> list[int]:
    columns = zip(*hypotheses, strict=False)
    return [column[0] for column in itertools.takewhile(lambda column: len(set(column)) == 1, columns)]


def _decoded(translator: Translator, ids: Sequence[int]) -> str:
    return as_one_line(translator.tgt_tokenizer.decode(ids)).lstrip()


def _certain(text: str) -> str:
    """The text without an end that later tokens may change: an unfinished character, a space that may be the last."""
    return text.rstrip(_BROKEN).rstrip()

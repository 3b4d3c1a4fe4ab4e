"""Translate a text and show its translation piece by piece during the search, without ever taking a piece back."""

import itertools
from collections.abc import Callable, Sequence

from mtkit.data.corpus import as_one_line
from mtkit.engines.native import NativeEngine
from mtkit.errors import MtkitError
from mtkit.search.hypothesis import Hypothesis
from mtkit.translation.translator import Translator

_BROKEN = "\ufffd"  # how the first bytes of a character decode before the others have come


def translate_live(
    translator: Translator, text: str, emit: Callable[[str], None], line: int | None = None
) -> tuple[str, bool]:
    """Return the text's translation; call emit with each part of it as soon as all hypotheses agree on it.

    Also return whether it is finished: False if the length limit ended it, or a segment of it.

    The parts add up to the translation. With greedy search they are single tokens; a beam holds back what its
    hypotheses do not have in common. A text that is too long comes segment by segment. As nothing is taken back, faults
    are not looked for.
    line: the text's line number, for a message about a text that is too long; None: no message.
    Raises MtkitError for an engine or settings that do not decode token by token.
    """
    engine = translator.engine
    if not isinstance(engine, NativeEngine):
        raise MtkitError(f"the {engine.name} engine does not show tokens as they come; use decode.engine=native")
    if translator.decode.mbr_samples or translator.terminology:
        raise MtkitError("only a plain search shows tokens as they come; leave mbr_samples and terminology out")
    parts: list[str] = []
    finished = True
    segments, _ = translator.segments([as_one_line(text).strip()], translator.decode, first_line=line)
    for segment in segments:
        start = " " if any(parts) else ""
        shown = ""

        def show(part: str, start: str = start) -> None:
            nonlocal shown
            if len(part) > len(shown) and part.startswith(shown):
                emit((start if not shown else "") + part[len(shown) :])
                shown = part

        for hypotheses in engine.stream(segment, translator.decode):
            # without an end that later tokens may change: an unfinished character, a space that may be the last
            show(_decode(translator, _common_prefix(hypotheses)).rstrip(_BROKEN).rstrip())
        [best] = hypotheses
        whole = _decode(translator, best.ids)
        show(whole)
        parts.append(whole)
        finished = finished and best.finished
    return " ".join(part for part in parts if part), finished


def _common_prefix(hypotheses: Sequence[Hypothesis]) -> list[int]:
    columns = zip(*(hypothesis.ids for hypothesis in hypotheses), strict=False)
    return [column[0] for column in itertools.takewhile(lambda column: len(set(column)) == 1, columns)]


def _decode(translator: Translator, ids: Sequence[int]) -> str:
    return as_one_line(translator.tgt_tokenizer.decode(ids)).strip()

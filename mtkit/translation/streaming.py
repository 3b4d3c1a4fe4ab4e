"""Translate one text and emit its translation piece by piece during the search, without ever revising a piece."""

import itertools
from collections.abc import Callable, Sequence

from mtkit.engines.native import NativeEngine
from mtkit.errors import MtkitError
from mtkit.search.hypothesis import Hypothesis
from mtkit.tokens.placeholders import fill, restore
from mtkit.translation.segments import gap_after
from mtkit.translation.translator import Translator

_INCOMPLETE = "\ufffd"  # how decoding shows the first bytes of a character whose last bytes are still to come


def translate_live(
    translator: Translator, text: str, emit: Callable[[str], None], line: int | None = None
) -> tuple[str, bool]:
    """Translate a text, and call emit with each part as soon as all hypotheses agree on it.

    Returns the translation and whether it is finished: False if the length limit ended it, or a segment of it. It is
    not reviewed for faults, since a second search could not replace what was emitted.

    The parts concatenate to the translation. With greedy search they are single tokens; a beam holds back what its
    hypotheses do not have in common. A text that is too long is emitted segment by segment.
    line: line number of the text, for a warning about that; None: do not warn.
    Raises MtkitError for an engine or settings that do not support streaming.
    """
    engine = translator.engine
    if not isinstance(engine, NativeEngine):
        raise MtkitError(f"the {engine.name} engine cannot stream tokens; use decode.engine=native")
    if translator.decode.mbr_samples or translator.terminology:
        raise MtkitError("only a plain search can stream tokens; set neither decode.mbr_samples nor decode.terminology")
    done = ""  # the translation of the segments before
    finished = True
    [pieces] = translator.pieces([text], first_line=line)
    for piece in pieces:
        start = gap_after(done, piece.gap)
        if piece.inline is not None:  # where its protected text belongs shows only at the end
            [[best_of_piece, *_]] = translator.search_pieces([piece])
            emit(start + best_of_piece.text)
            done += start + best_of_piece.text
            finished = finished and best_of_piece.finished
            continue
        if piece.is_blank:
            continue
        segment = translator.segment(piece)
        shown = ""

        def show(part: str, start: str = start) -> None:
            nonlocal shown
            if len(part) > len(shown) and part.startswith(shown):
                emit((start if not shown else "") + part[len(shown) :])
                shown = part

        for hypotheses in engine.stream(segment, translator.decode):
            # without an end that later tokens may change: an incomplete character, a space that may be the last
            beginning = translator.text_of(_common_prefix(hypotheses), segment).rstrip(_INCOMPLETE).rstrip()
            show(fill(beginning, segment.values))
        [best] = hypotheses
        whole, _ = restore(translator.text_of(best.ids, segment), segment.values)
        show(whole)
        done += start * bool(whole) + whole
        finished = finished and best.finished
    return done, finished


def _common_prefix(hypotheses: Sequence[Hypothesis]) -> list[int]:
    columns = zip(*(hypothesis.ids for hypothesis in hypotheses), strict=False)
    return [column[0] for column in itertools.takewhile(lambda column: len(set(column)) == 1, columns)]

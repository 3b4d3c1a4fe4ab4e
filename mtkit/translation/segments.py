"""Split a text that is too long for the model into segments, at sentence ends if possible, without losing any text."""

from collections.abc import Callable, Sequence

from mtkit.text.sentences import ends_without_space, part_spans, sentences


def split_long(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Split a text into segments that fit, in order, without the white space between them; [text] if all of it fits.

    Each sentence becomes a segment, since models are trained on sentences. One that does not fit is cut into parts.
    """
    text = text.strip()
    if fits(text):
        return [text]
    return [sentence[start:end] for sentence in sentences(text) for start, end in part_spans(sentence, fits)]


def join_segments(texts: Sequence[str], gaps: Sequence[str | None] = ()) -> str:
    """Join translated segments into one line.

    gaps: the white space before each segment, see `gap_after`; default: a space.
    """
    line = ""
    for text, gap in zip(texts, gaps or [" "] * len(texts), strict=True):
        line += gap_after(line, gap) + text if text else ""
    return line


def gap_after(line: str, gap: str | None) -> str:
    """Return the white space to put between a line and the translation of its next segment.

    gap: the white space in the source; None if it has none between two sentences, as in Chinese. Then there is a space
    unless the translation puts none between its sentences, either.
    """
    if not line:
        return ""
    return ("" if ends_without_space(line) else " ") if gap is None else gap

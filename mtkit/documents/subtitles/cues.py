"""The cues of SubRip and WebVTT subtitles, with the places of their lines, and which of them continue a sentence."""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mtkit.errors import DataError
from mtkit.text.lines import line_spans
from mtkit.text.sentences import FINAL, PAUSING, without_closing

_TIME = r"(?:(\d{1,4}):)?(\d{1,2}):(\d{1,2})(?:[,.](\d{1,3})|(?![^\s-]))"
_TIMING = re.compile(rf"[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}(?P<rest>[^\r\n]*)")
_LIKE_TIMING = re.compile(r"[ \t]*[\d:.,]+[ \t]*-->|.*-->[ \t]*[\d:.,]+[ \t]*$")
_NUMBER = re.compile(r"[ \t]*\d+[ \t]*$")
TAG = re.compile(r"<(?P<close>/?)(?:(?P<name>[a-zA-Z]+)|(?=[\d.:/]))[^<>\r\n]{0,500}>|\{\\[^{}\r\n]{0,500}\}|\\[Nh]")
DIRECTION = re.compile(
    r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]|&(?:lrm|rlm);"
)  # marks of it, which show nothing
_POSITION = re.compile(r"\{\\an?\d+[^{}\r\n]{0,100}\}")
_TURN = re.compile(
    rf"(?:<(?!v[\s.>])[^<>\r\n]*>|\{{\\[^{{}}\r\n]*\}}|{DIRECTION.pattern}|[ \t])*"
    r"(?P<mark>[-‐–—](?![-‐–—])[ \t]*(?=\S)|<v[\s.>]|[♪♫])"
)
_NOT_SPEECH = "♪♫♬♩[]()（）【】"
MOST_JOINED = 6  # cues of a sentence
_LONGEST_GAP_S = 3.0  # between them
_MOST_CHARACTERS = 600  # in them
_OFTEN = 0.3  # of the cues end a sentence: where so many do, one that ends in no mark goes on in the next

Interval = tuple[int, int]


@dataclass(frozen=True)
class Cue:
    """Text that is shown for some time."""

    lines: Sequence[Interval]  # where they stand, without white space around them; none is blank
    duration_s: float
    start_s: float
    end_s: float
    settings: str  # such as the position of a WebVTT cue


@dataclass(frozen=True)
class Cues:
    """The cues of a file, and what stands between their texts."""

    text: str  # of the file
    cues: Sequence[Cue]
    headers: Sequence[str]  # the lines of numbers and timings, and everything else outside the text of cues


def cues_of(text: str) -> Cues:
    """Return the cues of a file. Raises DataError if a timing is damaged, or if there are none."""
    is_vtt = is_webvtt(text)
    lines = list(line_spans(text))
    timings = {number: timing for number, line in enumerate(lines) if (timing := _timing(text, line, number))}
    if not timings and (text.strip() and not is_vtt):
        first = next(number for number, (start, end) in enumerate(lines) if text[start:end].strip())
        raise DataError(
            f"line {first + 1}: {text[slice(*lines[first])].strip()[:60]!r} and no timing, such as "
            "00:00:01,000 --> 00:00:02,500, in the whole file, so these are not subtitles"
        )
    return _divided(text, lines, timings, is_vtt)


def is_webvtt(text: str) -> bool:
    """Return whether a file of subtitles is WebVTT, not SubRip."""
    return re.match(r"WEBVTT(?![^\s])", text) is not None


def _timing(text: str, line: Interval, number: int) -> re.Match[str] | None:
    raw = text[slice(*line)]
    if "-->" not in raw:
        return None
    timing = _TIMING.match(raw)
    if timing is None and _LIKE_TIMING.match(raw):
        raise DataError(
            f"line {number + 1}: {raw.strip()[:60]!r} is not a timing; write it like 00:01:02,500 --> 00:01:04,000"
        )
    return timing


def _divided(text: str, lines: Sequence[Interval], timings: dict[int, re.Match[str]], is_vtt: bool) -> Cues:
    cues: list[Cue] = []
    headers: list[str] = []
    shown: list[Interval] = []
    timing: re.Match[str] | None = None
    for number, (start, end) in enumerate(lines):
        raw = text[start:end]
        is_header = number + 1 in timings and (is_vtt or _NUMBER.match(raw) is not None) and raw.strip() != ""
        if number in timings:
            timing = _close(cues, shown, timing, timings[number])
            headers.append(raw)
        elif is_header or timing is None:
            timing = _close(cues, shown, timing, None)
            headers.append(raw)
        elif not raw.strip():
            if is_vtt:
                timing = _close(cues, shown, timing, None)
        else:
            blank = len(raw) - len(raw.lstrip())
            shown.append((start + blank, start + len(raw.rstrip())))
    _close(cues, shown, timing, None)
    return Cues(text, cues, [header for header in headers if header.strip()])


def _close(
    cues: list[Cue], shown: list[Interval], timing: re.Match[str] | None, following: re.Match[str] | None
) -> re.Match[str] | None:
    """Add the cue that ends here, if any; return the timing of the one that follows."""
    if timing is not None:
        start, end = _seconds(timing.groups()[:4]), _seconds(timing.groups()[4:8])
        cues.append(Cue(tuple(shown), max(0.0, end - start), start, end, timing["rest"].strip()))
    shown.clear()
    return following


def _seconds(parts: Sequence[str | None]) -> float:
    hours, minutes, seconds, fraction = parts
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + int(seconds or 0) + float(f"0.{fraction or 0}")


def turns(text: str, cue: Cue) -> list[list[Interval]]:
    """Return the lines of a cue by speaker: a line with a dash, a note or <v Name> begins another one."""
    found: list[list[Interval]] = []
    for start, end in cue.lines:
        turn = _TURN.match(text, start, end)
        if turn or not found:
            found.append([])
        found[-1].append((start, end))
    return found


def turn_mark(text: str, line: Interval) -> Interval | None:
    """Return where the dash stands with which a line begins, if one does."""
    turn = _TURN.match(text, *line)
    return turn.span("mark") if turn and turn["mark"][0] not in "<♪♫" else None


def groups(text: str, cues: Sequence[Cue]) -> Iterator[list[Cue]]:
    """Yield cues that share a sentence together, others alone."""
    ends = [_end_of_speech(text, cue) for cue in cues]
    is_punctuated = sum(end in FINAL for end in ends if end) >= _OFTEN * len(cues)
    group: list[Cue] = []
    n_characters = 0
    for cue, end_before in zip(cues, ["", *ends], strict=False):
        length = sum(end - start for start, end in cue.lines)
        is_full = len(group) == MOST_JOINED or n_characters + length > _MOST_CHARACTERS
        if group and not is_full and _continues(text, group[-1], cue, end_before, is_punctuated):
            group.append(cue)
            n_characters += length
            continue
        if group:
            yield group
        group, n_characters = [cue], length
    if group:
        yield group


def plain(text: str, cue: Cue) -> str:
    """Return the text of a cue as it is shown: without tags, entities and marks of direction."""
    joined = " ".join(TAG.sub("", text[start:end]).strip() for start, end in cue.lines)
    return DIRECTION.sub("", html.unescape(joined))


def _end_of_speech(text: str, cue: Cue) -> str:
    return without_closing(plain(text, cue))[-1:]


def _continues(text: str, before: Cue, cue: Cue, end: str, is_punctuated: bool) -> bool:
    """Return whether a cue goes on with the sentence of the one before it. end: its last character."""
    if not before.lines or not cue.lines or before.settings != cue.settings:
        return False
    if not -0.5 <= cue.start_s - before.end_s <= _LONGEST_GAP_S:
        return False
    one, other = plain(text, before), plain(text, cue)
    if any(sign in one + other for sign in _NOT_SPEECH) or _has_turns(text, before) or _has_turns(text, cue):
        return False
    if text[slice(*before.lines[-1])] == text[slice(*cue.lines[0])] or _positions(text, before) != _positions(
        text, cue
    ):
        return False
    first = next(iter(other.lstrip(".… \"'“‘«")), "")
    if one.endswith(("...", "…")):
        return first.islower()
    if not end or end in FINAL or end in ":：" or not first:
        return False
    return first.islower() or end in PAUSING or is_punctuated


def _has_turns(text: str, cue: Cue) -> bool:
    return any(_TURN.match(text, *line) for line in cue.lines)


def _positions(text: str, cue: Cue) -> list[str]:
    return [position for line in cue.lines for position in _POSITION.findall(text[slice(*line)])]

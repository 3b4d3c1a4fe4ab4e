"""Recognise identifiers in text, such as A-12, order_id and 4f2a91c0, which are the same in every language."""

import re

_EDGES = " \t\r\n.,;:!?…()[]{}\"'“”‘’«»*#=|~<>/\\_–—-"
_JOINED = re.compile(r"\w+(?:[-_./:#]\w+)*")
_SPOKEN = re.compile(r"\d[\d:.]*(?:ST|ND|RD|TH|[AP]M|S)")  # 21ST, 9AM, 1990S
_IDENTIFIER = re.compile(
    r"[A-Za-z0-9]+(?:_[A-Za-z0-9]+)+"  # snake_case
    r"|[vV]?\d+(?:\.\d+)+(?:[-.]?[a-z]+\.?\d*)?"  # a version
    r"|(?=[a-fA-F]*\d)(?=\d*[a-fA-F])[0-9a-fA-F]{7,}(?:-[0-9a-fA-F]{4,})*"  # a hash, a UUID
)


def is_identifier(text: str) -> bool:
    """Return whether a text is one identifier, apart from marks around it.

    One in capitals has a digit: A-12 and COVID-19 are identifiers, EXIT and T-SHIRT are words.
    """
    has_digit = any(map(str.isdigit, text))
    if not has_digit and "_" not in text:
        return False  # as for most text, which this decides in a microsecond
    core = text.strip(_EDGES)
    letters = [character for character in core if character.isalpha()]
    if not letters or _IDENTIFIER.fullmatch(core):
        return bool(letters)
    is_code = has_digit and all(map(str.isupper, letters))
    return is_code and bool(_JOINED.fullmatch(core)) and not _SPOKEN.fullmatch(core)

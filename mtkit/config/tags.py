"""Tags before source sentences, such as <2de>: check them, and list those in a value."""

import re
from typing import Annotated

from pydantic import AfterValidator

_TAG = r"(?:<[^\s<>\u2581]+>|>>[^\s<>\u2581]+<<)"
TOKENS = tuple(f"<ph{number}>" for number in range(1, 10))  # reserved for what `data.placeholders` matches


def check_tag(tag: str) -> str:
    """Return the text. Raises ValueError if it is not one tag or several, such as <2de> or <2de> <news>."""
    if not re.fullmatch(rf"{_TAG}( {_TAG})*", tag):
        raise ValueError(
            f"{tag} must be a name without spaces in angle brackets, such as <2de>, or >>fra<< of OPUS-MT; separate "
            "several by spaces, such as <2de> <news>"
        )
    for single in tags_of(tag):
        if single in TOKENS or re.fullmatch(r"<(pad|unk|s|/s|0x[0-9A-F]{2})>", single):
            raise ValueError(f"{single} is already a special token; choose another name")
    return tag


Tag = Annotated[str, AfterValidator(check_tag)]


def is_tag(text: str) -> bool:
    """Return whether a token is a tag, and not one of the tokens reserved for placeholders."""
    return text not in TOKENS and re.fullmatch(_TAG, text) is not None


def tags_of(tag: str | None) -> list[str]:
    """Return the tags in a value with none, one, or several separated by spaces."""
    return (tag or "").split()

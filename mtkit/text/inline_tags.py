"""Inline tags in text, such as <b>, </b>, <br/> and the numbered <0> of React libraries, and entities such as &amp;."""

import re

_MOST = 200  # quoted attributes and pieces between them, in a tag: so that hostile lines take no quadratic time
# Comments only begin here; declarations and instructions have no name.
TAG = re.compile(
    r"<!--"
    r"|<(?:!(?!--)|\?)[^<>]{0,2000}+>"
    r"|<(?P<close>/?)(?P<name>[a-zA-Z][^\s/<>]{0,99}+)"
    rf"""(?P<rest>(?:"[^"]*+"|'[^']*+'|[^'"<>]++){{0,{_MOST}}}+)>""",
)
NUMBERED_TAG = re.compile(r"<(?P<close>/?)(?P<number>\d{1,2})\s?(?P<single>/?)>")
ENTITY = re.compile(r"&(?:#[xX][0-9a-fA-F]{1,6}|#[0-9]{1,7}|[a-zA-Z][a-zA-Z0-9]{1,31});")
_RUBY = re.compile(r"%<\w{1,60}>[-+ 0#]*\d*(?:\.\d+)?[a-zA-Z](?![a-zA-Z<])")  # a placeholder such as %<n>d
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9:._-]*")


def tag_names(text: str) -> list[str]:
    """Return the tags of a text without attributes: <b>, </b>, <br>, <0>; an address in angle brackets is not a tag."""
    text = _RUBY.sub(" ", text)
    names = [f"<{tag['close']}{tag['name'].lower()}>" for tag in TAG.finditer(text) if _is_markup(tag)]
    return names + [f"<{tag['close']}{tag['number']}>" for tag in NUMBERED_TAG.finditer(text)]


def _is_markup(tag: re.Match[str]) -> bool:
    if not tag["name"] or not _NAME.fullmatch(tag["name"]):
        return False
    return tag["rest"] in ("", "/") or tag["rest"][0].isspace()


def without_tags(text: str) -> str:
    """Replace each tag by a space."""
    return NUMBERED_TAG.sub(" ", TAG.sub(" ", text)) if "<" in text else text

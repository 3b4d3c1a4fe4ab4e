"""Write scalars of YAML: plain, in single or double quotes, and as literal or folded blocks."""

import re
from dataclasses import dataclass

import yaml

NO_BLOCK = "is a block that begins or ends with a line of spaces; remove them"
_SPECIAL_START = re.compile(r"[-?:,\[\]{}#&*!|>'\"%@`=~<.\s]")
_SPECIAL = re.compile(r":(?:\s|\Z)|\s#|\s\Z|[\n\t\x85\u2028\u2029\ufeff]")
_SPECIAL_IN_FLOW = re.compile(r"[,\[\]{}?]|:(?=[^\w\s])")
_LIKE_OTHERS = re.compile(r"y|n|yes|no|on|off|true|false|null|none|[-+]?[\d.][\d_,.:eE+-]*", re.IGNORECASE)
_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]')
_ESCAPED_ASCII = re.compile(r'["\\]|[^\x20-\x7e]')
_NAMED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0", "\x85": "\\N", "\xa0": "\\_"}
_SINGLE_SPACE = re.compile(r"(?<=\S) (?=\S)")
_NARROWEST = 40  # characters of a line that is wrapped


STRING = "tag:yaml.org,2002:str"


def tag_of(resolver: yaml.resolver.Resolver, value: str, implicit: tuple[bool, bool]) -> str:
    """Return the type of a scalar that names none."""
    return str(resolver.resolve(yaml.ScalarNode, value, implicit))  # type: ignore[no-untyped-call]


def plain(resolver: yaml.resolver.Resolver, text: str, *, is_flow: bool, is_ascii: bool) -> str:
    """Return text as a plain scalar, or in double quotes if it would be something else. is_flow: inside [] or {}."""
    is_special = (
        not text
        or _SPECIAL_START.match(text)
        or _SPECIAL.search(text)
        or (is_flow and _SPECIAL_IN_FLOW.search(text))
        or _ESCAPED.search(text.replace('"', "").replace("\\", ""))
        or _LIKE_OTHERS.fullmatch(text)
        or (is_ascii and not text.isascii())
        or tag_of(resolver, text, (True, False)) != STRING
    )
    return double_quoted(text, is_ascii=is_ascii) if is_special else text


def single_quoted(text: str, *, is_ascii: bool) -> str:
    """Return text in single quotes, or in double ones if it needs escapes."""
    needs_escapes = _ESCAPED.search(text.replace('"', "").replace("\\", "")) or (is_ascii and not text.isascii())
    return double_quoted(text, is_ascii=is_ascii) if needs_escapes else "'{}'".format(text.replace("'", "''"))


def double_quoted(text: str, *, is_ascii: bool) -> str:
    """Return text in double quotes. is_ascii: with escapes for all other characters."""
    pattern = _ESCAPED_ASCII if is_ascii else _ESCAPED
    return f'"{pattern.sub(lambda found: _escape(found[0]), text)}"'


def _escape(character: str) -> str:
    code = ord(character)
    named = _NAMED.get(character)
    return named or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")


@dataclass(frozen=True)
class Block:
    """The lines of a literal or folded block: characters start to end, behind the indentation of the first."""

    start: int
    end: int
    indentation: str
    newline: str
    width: int  # of its longest line
    is_folded: bool
    begins_with_space: bool = False  # which its header allows

    def write(self, text: str) -> str:
        """Return text as such lines. Line breaks at its ends are not part of them, nor is a space that begins it."""
        core = text.strip("\n") if self.begins_with_space else text.strip("\n").lstrip(" ")
        lines = self._folded(core) if self.is_folded else core.split("\n")
        return self.newline.join(self.indentation + line if line else "" for line in lines).removeprefix(
            self.indentation
        )

    def _folded(self, text: str) -> list[str]:
        """Return lines that folding makes one again. Those that begin with white space are never folded."""
        lines: list[str] = []
        n_empty, before = 0, ""
        for line in text.split("\n"):
            if not line:
                n_empty += 1
                continue
            if lines:
                is_kept = before[0] in " \t" or line[0] in " \t"
                lines += [""] * (n_empty if is_kept else n_empty + 1)
            lines += [line] if line[0] in " \t" else self._wrapped(line)
            n_empty, before = 0, line
        return lines

    def _wrapped(self, line: str) -> list[str]:
        lines: list[str] = []
        words: list[str] = []
        length = 0
        for word in _SINGLE_SPACE.split(line):
            if words and length + 1 + len(word) > max(self.width, _NARROWEST):
                lines.append(" ".join(words))
                words, length = [], 0
            length += len(word) + bool(words)
            words.append(word)
        return [*lines, " ".join(words)]


def block_of(raw: str, value: str, *, is_folded: bool) -> Block | None:
    """Return the lines of a block.

    raw: from its | or > on. value: what it stands for. None if a line of spaces is part of the text at its ends.
    """
    core = value.strip("\n")
    header = raw.find("\n") + 1
    first = re.compile(r"[ \t]*[^\s]").search(raw, header) if header else None
    if not core.strip() or first is None:
        return Block(len(raw), len(raw), "", "\n", 0, is_folded) if not core else None
    if not core.split("\n", 1)[0].strip() or not core.rsplit("\n", 1)[-1].strip():
        return None
    start = raw.rfind("\n", 0, first.end()) + 1
    n_before = len(raw[start:]) - len(raw[start:].lstrip(" "))
    n_inner = len(core) - len(core.lstrip(" "))
    end = len(raw.rstrip())
    line_end = raw.find("\n", end)
    end = len(raw[: line_end if line_end >= 0 else len(raw)].rstrip("\r"))
    indentation = " " * (n_before - n_inner)
    width = max(len(line.rstrip()) for line in raw[start:end].split("\n")) - len(indentation)
    newline = "\r\n" if "\r\n" in raw else "\n"
    return Block(start + len(indentation), end, indentation, newline, width, is_folded, n_inner > 0)

"""Parse YAML text into plain values and the line of each key, and format plain values as YAML.

Scalars follow YAML 1.2: `1e-3` is a number, and only true and false are booleans (`tgt_lang: no` is text).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml

KeyPath = tuple[str | int, ...]  # of a value: ("data", "train", 0, "src")

_TAG = "tag:yaml.org,2002:"
_SCALARS = {  # the first match decides; all other text is a string
    "null": r"(~|null|Null|NULL|)\Z",
    "bool": r"(true|True|TRUE|false|False|FALSE)\Z",
    "int": r"[-+]?[0-9]+(_[0-9]+)*\Z",
    "float": r"([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z",
}
_RESOLVERS = {None: [(_TAG + name, re.compile(pattern)) for name, pattern in _SCALARS.items()]}
_LARGEST_EXACT_FLOAT = 2.0**53


class YamlSyntaxError(ValueError):
    """The text is not YAML; line: from 1, None if the parser gives none."""

    def __init__(self, line: int | None, message: str) -> None:
        super().__init__(message)
        self.line = line


@dataclass
class ParsedYaml:
    """The content of a YAML text; faults: (line, key, what is wrong) of values left out of `value`."""

    value: Any = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    faults: list[tuple[int, str, str]] = field(default_factory=list)


def parse_yaml(text: str) -> ParsedYaml:
    """Read one YAML document.

    Raises YamlSyntaxError.
    """
    try:
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
        finally:
            loader.dispose()
        parsed = ParsedYaml()
        if root is not None:
            parsed.value = _plain_value(root, (), (), parsed)
        return parsed
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlSyntaxError(line, f"the character U+{int(error.character):04X} is not allowed") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = ", ".join(part for part in (error.context, error.problem) if part)
        raise YamlSyntaxError(mark.line + 1 if mark else None, f"not valid YAML: {what}") from error
    except RecursionError as error:
        raise YamlSyntaxError(None, "not a config: brackets or indents are nested too deeply") from error


def format_yaml(value: object) -> str:
    """Format a value as block-style YAML that parse_yaml reads back; lists of scalars stay on one line."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)


def dotted(path: KeyPath) -> str:
    """Join a path with dots: data.train.0.src."""
    return ".".join(map(str, path))


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = _RESOLVERS


class _Dumper(yaml.SafeDumper):
    yaml_implicit_resolvers = _RESOLVERS

    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_list(dumper: _Dumper, items: list[Any]) -> yaml.Node:
    on_one_line = not any(isinstance(item, list | dict) for item in items)
    return dumper.represent_sequence(_TAG + "seq", items, flow_style=on_one_line)


def _represent_str(dumper: _Dumper, text: str) -> yaml.Node:
    # Double quotes escape unusual characters; other styles write U+0085 or U+2028 as line ends.
    return dumper.represent_scalar(_TAG + "str", text, style=None if text.isprintable() else '"')


_Dumper.add_representer(list, _represent_list)
_Dumper.add_representer(str, _represent_str)


def _plain_value(node: yaml.Node, path: KeyPath, ancestors: tuple[yaml.Node, ...], parsed: ParsedYaml) -> Any:
    line = node.start_mark.line + 1
    if any(node is ancestor for ancestor in ancestors):
        parsed.faults.append((line, dotted(path), "is an alias of a value that contains it"))
        return None
    if isinstance(node, yaml.ScalarNode):
        try:
            return _READ_SCALAR[node.tag](node.value)
        except (KeyError, ValueError):
            parsed.faults.append((line, dotted(path), f"the tag {node.tag} is not supported"))
            return None
    if isinstance(node, yaml.SequenceNode):
        for i, item in enumerate(node.value):
            parsed.lines[(*path, i)] = item.start_mark.line + 1
        return [_plain_value(item, (*path, i), (*ancestors, node), parsed) for i, item in enumerate(node.value)]
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key, key_line = str(key_node.value), key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            parsed.faults.append((key_line, dotted(path), "a key must be a word, not a list or a mapping"))
        elif key in mapping:
            first = parsed.lines[(*path, key)]
            parsed.faults.append((key_line, dotted((*path, key)), f"given twice, first in line {first}; remove one"))
        else:
            parsed.lines[(*path, key)] = key_line
            mapping[key] = _plain_value(value_node, (*path, key), (*ancestors, node), parsed)
    return mapping


def _read_float(text: str) -> float | int:
    digits = text.lower()
    if digits.lstrip("+-") in (".inf", ".nan"):
        return float(digits.replace(".", ""))
    value = float(digits)
    # An integer if it is one, so that max_steps: 1e5 is valid.
    return int(value) if "e" in digits and value.is_integer() and abs(value) <= _LARGEST_EXACT_FLOAT else value


_READ_SCALAR: dict[str, Callable[[str], Any]] = {
    _TAG + "null": lambda text: None,
    _TAG + "bool": lambda text: {"true": True, "false": False}[text.lower()],
    _TAG + "int": int,
    _TAG + "float": _read_float,
    _TAG + "str": str,
}

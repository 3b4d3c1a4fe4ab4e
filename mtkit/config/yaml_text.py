"""YAML text in, plain values and the line of every key out; and plain values back into YAML text.

Scalars are read as in YAML 1.2: `1e-3` is a number, only true and false are booleans (`tgt_lang: no` stays text).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml

KeyPath = tuple[str | int, ...]  # where a value stands: ("data", "train", 0, "src")

_TAG = "tag:yaml.org,2002:"
_SCALARS = {  # the first that fits decides; text that fits none is a string
    "null": r"(~|null|Null|NULL|)\Z",
    "bool": r"(true|True|TRUE|false|False|FALSE)\Z",
    "int": r"[-+]?[0-9]+(_[0-9]+)*\Z",
    "float": r"([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z",
}
_RESOLVERS = {None: [(_TAG + name, re.compile(pattern)) for name, pattern in _SCALARS.items()]}
_LARGEST_EXACT_FLOAT = 2.0**53


class YamlSyntaxError(ValueError):
    """The text is not YAML; `line` counts from 1 and is None where YAML gives no place."""

    def __init__(self, line: int | None, message: str) -> None:
        super().__init__(message)
        self.line = line


@dataclass
class ParsedYaml:
    """What a YAML text holds; `faults` are (line, key, what is wrong) of values that are left out of `value`."""

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
    """Block-style YAML that parse_yaml reads back as the same value; short lists stay on one line."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)


def dotted(path: KeyPath) -> str:
    """The path as people write it: data.train.0.src."""
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
    # in double quotes everything unusual is written as an escape; other styles write U+0085 or U+2028 as a line's end
    return dumper.represent_scalar(_TAG + "str", text, style=None if text.isprintable() else '"')


_Dumper.add_representer(list, _represent_list)
_Dumper.add_representer(str, _represent_str)


def _plain_value(node: yaml.Node, path: KeyPath, ancestors: tuple[yaml.Node, ...], parsed: ParsedYaml) -> Any:
    line = node.start_mark.line + 1
    if any(node is ancestor for ancestor in ancestors):
        parsed.faults.append((line, dotted(path), "is an alias of something that it is part of"))
        return None
    if isinstance(node, yaml.ScalarNode):
        try:
            return _READ_SCALAR[node.tag](node.value)
        except (KeyError, ValueError):
            parsed.faults.append((line, dotted(path), f"the tag {node.tag} cannot be used here"))
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
            parsed.faults.append((key_line, dotted((*path, key)), f"given twice, first in line {first}; keep one"))
        else:
            parsed.lines[(*path, key)] = key_line
            mapping[key] = _plain_value(value_node, (*path, key), (*ancestors, node), parsed)
    return mapping


def _read_float(text: str) -> float | int:
    digits = text.lower()
    if digits.lstrip("+-") in (".inf", ".nan"):
        return float(digits.replace(".", ""))
    value = float(digits)
    # 1e5 is a whole number to whoever writes it, so that max_steps: 1e5 is one, too
    return int(value) if "e" in digits and value.is_integer() and abs(value) <= _LARGEST_EXACT_FLOAT else value


_READ_SCALAR: dict[str, Callable[[str], Any]] = {
    _TAG + "null": lambda text: None,
    _TAG + "bool": lambda text: {"true": True, "false": False}[text.lower()],
    _TAG + "int": int,
    _TAG + "float": _read_float,
    _TAG + "str": str,
}

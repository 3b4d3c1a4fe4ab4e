"""Parse YAML text into plain values and the line of each key, and format plain values as YAML.

mtkit reads all YAML with this module: configs, bundles, suites, and the options of other toolkits' models. Scalars
follow YAML 1.2: `1e-3` is a number, and only true and false are booleans (`tgt_lang: no` is text).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.resolver import BaseResolver

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
_MOST_LEVELS = 100  # of brackets or indents in each other
# A few aliases of aliases expand to gigabytes, or never end ("billion laughs").
_MOST_REPEATED = 100_000  # characters and values that aliases may repeat


class YamlSyntaxError(ValueError):
    """The text is not YAML; line: from 1, None if the parser does not report one."""

    def __init__(self, line: int | None, message: str) -> None:
        super().__init__(message)
        self.line = line


@dataclass
class ParsedYaml:
    """The content of a YAML text; faults: (line, key, problem) of each value left out of `value`."""

    value: Any = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    faults: list[tuple[int, str, str]] = field(default_factory=list)


def parse_yaml(text: str) -> ParsedYaml:
    """Read one YAML document.

    Raises YamlSyntaxError.
    """
    try:
        try:
            root = _Loader(text).get_single_node()
        except (yaml.YAMLError, ValueError):  # the parser in Python describes the problem, or can read the text
            root = _with_python(text)
        parsed = ParsedYaml()
        if root is not None:
            parsed.value = _PlainValues(parsed).read(root, (), ())
        return parsed
    except RecursionError as error:
        raise _too_deep(None) from error


def _with_python(text: str) -> yaml.Node | None:
    """Parse with the parser that is written in Python. Raises YamlSyntaxError."""
    try:
        loader = _PythonLoader(text)
        try:
            return loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlSyntaxError(line, f"the character U+{int(error.character):04X} is not allowed") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = ", ".join(part for part in (error.context, error.problem) if part)
        if error.context == "while scanning a block scalar":
            what += "; put quotes around a text that begins with > or |"
        raise YamlSyntaxError(mark.line + 1 if mark else None, f"not valid YAML: {what}") from error
    except (ValueError, OverflowError) as error:  # from PyYAML, for example of "\\UFFFFFFFF"
        raise YamlSyntaxError(loader.line + 1, f"not valid YAML: {error}") from error


def _too_deep(line: int | None) -> YamlSyntaxError:
    return YamlSyntaxError(line, "not a config: brackets or indents are nested too deeply")


def yaml_value(text: str) -> Any:
    """Return the value of a YAML text. Raises YamlSyntaxError with the line, also if a value has a fault."""
    try:
        parsed = parse_yaml(text)
    except YamlSyntaxError as error:
        where = "" if error.line is None else f"line {error.line}: "
        raise YamlSyntaxError(error.line, f"{where}{error}") from error
    for line, key, what in parsed.faults:
        raise YamlSyntaxError(line, f"line {line}: {key}: {what}")
    return parsed.value


def format_yaml(value: object) -> str:
    """Format a value as block-style YAML that parse_yaml reads back; lists of scalars stay on one line."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)


def dotted(path: KeyPath) -> str:
    """Join a path with dots: data.train.0.src."""
    return ".".join(map(str, path))


class _PythonLoader(yaml.SafeLoader):
    yaml_implicit_resolvers = _RESOLVERS


_Loader: Any = _PythonLoader
_SafeDumper: Any = yaml.SafeDumper
if yaml.__with_libyaml__:
    from yaml._yaml import CParser
    from yaml.cyaml import CSafeDumper

    class _CLoader(Composer, CParser, BaseResolver):
        """Parses in C, eight times as fast, but composes in Python, where deep nesting is an error and not a crash."""

        yaml_implicit_resolvers = _RESOLVERS

        def __init__(self, text: str) -> None:
            CParser.__init__(self, text)
            Composer.__init__(self)
            BaseResolver.__init__(self)

    _Loader, _SafeDumper = _CLoader, CSafeDumper


class _Dumper(_SafeDumper):  # type: ignore[misc] # one of two classes
    yaml_implicit_resolvers = _RESOLVERS

    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_list(dumper: yaml.SafeDumper, items: list[Any]) -> yaml.Node:
    on_one_line = not any(isinstance(item, list | dict) for item in items)
    return dumper.represent_sequence(_TAG + "seq", items, flow_style=on_one_line)


def _represent_str(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    # Double quotes escape unusual characters; other styles write U+0085 or U+2028 as line ends.
    return dumper.represent_scalar(_TAG + "str", text, style=None if text.isprintable() else '"')


_Dumper.add_representer(list, _represent_list)
_Dumper.add_representer(str, _represent_str)


class _PlainValues:
    """Converts nodes to plain values; because an alias becomes a copy, it counts and limits the repeated values."""

    def __init__(self, parsed: ParsedYaml) -> None:
        self.parsed = parsed
        self._seen: set[int] = set()  # ids of nodes
        self._n_repeated = 0  # characters and values

    def read(
        self, node: yaml.Node, path: KeyPath, ancestors: tuple[yaml.Node, ...], repeated_at: int | None = None
    ) -> Any:
        """Return the node's value, and note lines and faults. repeated_at: line of the alias that contains the node."""
        line, parsed = node.start_mark.line + 1, self.parsed
        if len(ancestors) > _MOST_LEVELS:
            raise _too_deep(line)
        if any(node is ancestor for ancestor in ancestors):
            parsed.faults.append((line, dotted(path), "is an alias of a value that contains it"))
            return None
        if repeated_at is None and id(node) in self._seen:
            # the line of the value around it: that of a list's entry is where the anchor stands
            repeated_at = max(parsed.lines.get(path[:depth], 1) for depth in range(len(path) + 1))
        self._seen.add(id(node))
        if repeated_at is not None:
            self._count(node, repeated_at)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        inside = (*ancestors, node)
        if isinstance(node, yaml.SequenceNode):
            for i, item in enumerate(node.value):
                parsed.lines[(*path, i)] = item.start_mark.line + 1
            return [self.read(item, (*path, i), inside, repeated_at) for i, item in enumerate(node.value)]
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key, key_line = str(key_node.value), key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                parsed.faults.append((key_line, dotted(path), "a key must be a word, not a list or a mapping"))
            elif key in mapping:
                first = parsed.lines[(*path, key)]
                parsed.faults.append(
                    (key_line, dotted((*path, key)), f"given twice, first in line {first}; remove one")
                )
            else:
                parsed.lines[(*path, key)] = key_line
                mapping[key] = self.read(value_node, (*path, key), inside, repeated_at)
        return mapping

    def _count(self, node: yaml.Node, repeated_at: int) -> None:
        keys = [key.value for key, _ in node.value] if isinstance(node, yaml.MappingNode) else []
        texts = [node.value] if isinstance(node, yaml.ScalarNode) else keys
        self._n_repeated += 1 + sum(map(len, texts))
        if self._n_repeated > _MOST_REPEATED:
            raise YamlSyntaxError(
                repeated_at, f"aliases repeat more than {_MOST_REPEATED:,} characters and values; use fewer aliases"
            )

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath) -> Any:
        try:
            return _READ_SCALAR[node.tag](node.value)
        except KeyError:
            problem = f"the tag {node.tag} is not supported"
        except ValueError:
            shown = node.value if len(node.value) <= 40 else f"{node.value[:40]}..."
            problem = f"{shown} cannot be read as {node.tag.removeprefix(_TAG)}"
        self.parsed.faults.append((node.start_mark.line + 1, dotted(path), problem))
        return None


def _read_float(text: str) -> float | int:
    digits = text.lower()
    if digits.lstrip("+-") in (".inf", ".nan"):
        return float(digits.replace(".", ""))
    value = float(digits)
    # An integer if it is one, so that max_steps: 1e5 is valid.
    return int(value) if "e" in digits and value.is_integer() and abs(value) <= _LARGEST_EXACT_FLOAT else value


def _read_bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text} is neither true nor false")
    return text.lower() == "true"


_READ_SCALAR: dict[str, Callable[[str], Any]] = {
    _TAG + "null": lambda text: None,
    _TAG + "bool": _read_bool,
    _TAG + "int": int,
    _TAG + "float": _read_float,
    _TAG + "str": str,
}

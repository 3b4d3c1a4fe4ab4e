"""Apply an override, such as `--set section.key=value`, to the values of a config."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mtkit.config.reading.problems import Origin, Override, Problem, Setting, field_at, is_path
from mtkit.config.reading.yaml_text import KeyPath, YamlSyntaxError, dotted, parse_yaml
from mtkit.config.schema import Config
from mtkit.config.section import Section


def apply_override(
    override: Override, values: dict[str, Any], origins: dict[KeyPath, Origin], root: type[Section] = Config
) -> list[Problem]:
    """Change values by an override and record it in origins; return the problems of its syntax.

    The value is YAML, which allows lists and null. A number in the key is the index of a list's entry, from 0; the
    index after the last adds an entry. Relative paths start from the current folder. root: the section class of the
    values as a whole.
    """
    key, equals, text = override.text.partition("=")
    if not equals or not key.strip():
        return [Problem(override, "", "write it as section.key=value, for example train.lr=1e-3")]
    path: KeyPath = tuple(int(part) if part.isdecimal() else part for part in key.strip().split("."))
    if text.startswith((">", "|")) and "\n" not in text:
        text = json.dumps(text, ensure_ascii=False)  # YAML would take the mark for the start of several lines
    try:
        parsed = parse_yaml(text)
    except YamlSyntaxError as error:
        return [Problem(override, override.key, str(error))]
    if parsed.faults:
        return [Problem(override, override.key, what) for _, _, what in parsed.faults]
    try:
        created = _put(values, path, _from_current_folder(parsed.value, path, root))
    except LookupError as error:
        return [Problem(override, override.key, str(error.args[0]))]
    for covered in [other for other in origins if other[: len(path)] == path]:
        del origins[covered]
    origins.update((other, override) for other in created)
    return []


def decode_overrides(decode: Mapping[str, object]) -> list[str]:
    """Convert arguments for keys of the decode section to overrides, quoted so that a path such as "a: b" stays a
    string.
    """
    return [Setting(setting(f"decode.{key}", value), f"{key}={value!r}") for key, value in decode.items()]


def setting(key: str, value: object) -> str:
    """Return an override that sets a key, such as "port=80", quoted so that any text stays a string."""
    # JSON is YAML, except for escapes beyond \uFFFF
    return f"{key}={json.dumps(value, default=str, ensure_ascii=False)}"


def _put(values: dict[str, Any], path: KeyPath, value: object) -> list[KeyPath]:
    """Set the value at path, and create missing sections and lists. Return the paths of all that are new, and path.

    Raises LookupError if a value on the way is neither a section nor a list.
    """
    holder: Any = values
    created: list[KeyPath] = []
    for depth, part in enumerate(path):
        here, rest = path[: depth + 1], path[depth + 1 :]
        _check_holder(holder, part, dotted(path[:depth]))
        if isinstance(holder, list) and part == len(holder):
            holder.append(None)
        if not rest:
            holder[part] = value
            return [*created, here]
        if isinstance(holder, dict):
            holder.setdefault(part, None)
        if holder[part] is None:
            holder[part] = [] if isinstance(rest[0], int) else {}
            created.append(here)
        holder = holder[part]
    raise ValueError("an empty path")


def _check_holder(holder: Any, part: str | int, name: str) -> None:
    """Raise LookupError if a value of the config cannot have an entry of this name or index."""
    if isinstance(holder, list):
        if not isinstance(part, int) or part > len(holder):
            entries = f"{len(holder)} entr{'y' if len(holder) == 1 else 'ies'}"
            raise LookupError(f"{name} has {entries}: use an index from 0 to {len(holder)}; the last one adds an entry")
    elif not isinstance(holder, dict):
        raise LookupError(f"{name} is a single value without keys")
    elif isinstance(part, int):
        raise LookupError(f"{name or 'the config'} has keys, not entries with an index")


def _from_current_folder(value: Any, path: KeyPath, root: type[Section]) -> Any:
    if isinstance(value, Mapping):
        return {key: _from_current_folder(inner, (*path, key), root) for key, inner in value.items()}
    if isinstance(value, list):
        return [_from_current_folder(inner, (*path, i), root) for i, inner in enumerate(value)]
    try:
        field, _ = field_at(path, root)
    except ValueError:  # an unknown key: the schema reports it
        return value
    if not isinstance(value, str) or not is_path(field):
        return value
    try:
        return str(Path(value).expanduser().absolute())
    except RuntimeError:  # an unknown ~user: the schema reports it
        return value

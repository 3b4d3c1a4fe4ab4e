#!/usr/bin/env python3
"""Writes docs/reference.md (every key of a config) and docs/commands.md (every command) from the code itself.

Run it after a change of either; a test compares.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer.main

from mtkit.cli import app
from mtkit.cli.commands import CommandGroup
from mtkit.cli.help import Command
from mtkit.config.loading import json_schema

DOCS = Path(__file__).resolve().parents[1] / "docs"
MADE = "<!-- made by scripts/make_reference.py: change the schema or the command, and run it again -->"
CONFIG_INTRO = f"""\
# Every key of a config
{MADE}

A config is a YAML file with the sections below; `data` and a limit in `train` are all that must be there. Relative
paths start from the folder that holds the file. `mtkit config FILE` prints a config with every default, `--set
SECTION.KEY=VALUE` changes a key for one command (as YAML: `train.max_epochs=null`, `data.train.0.tgt=other.fr` of the
first corpus; the number after the last adds one; of a finished model only keys of `decode`), and `mtkit config
--schema` gives an editor the same facts as JSON Schema. Complete examples, with a comment on every key, are in
[configs](../configs)."""
COMMANDS_INTRO = f"""\
# Every command
{MADE}

`mtkit COMMAND --help` prints the same. Every command also takes `--quiet` (warnings and errors only)."""
BOUNDS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
KINDS = {"integer": "whole number", "number": "number", "boolean": "`true` or `false`", "string": "text"}


def config_reference() -> str:
    """The Markdown of docs/reference.md."""
    schema = json_schema()
    definitions = schema["$defs"]
    places: dict[str, list[str]] = {}  # of each definition: the keys that it stands under
    _note_places(schema, "", definitions, places)
    parts = [CONFIG_INTRO, "## At the top\n" + _table(schema)]
    for name, keys in places.items():
        level = "##" if "." not in keys[0] else "###"
        definition = definitions[name]
        heading = ", ".join(f"`{key}`" for key in keys)
        parts.append(f"{level} {heading}\n{_text(definition['description'])}\n\n{_table(definition)}")
    return "\n\n".join(parts) + "\n"


def _note_places(schema: Mapping[str, Any], prefix: str, definitions: Mapping[str, Any], places: Any) -> None:
    for key, value in schema["properties"].items():
        for name, is_list in _references(value):
            place = f"{prefix}{key}" + ("[]" if is_list else "")
            places.setdefault(name, []).append(place)
            if len(places[name]) == 1:
                _note_places(definitions[name], f"{place}.", definitions, places)


def _references(value: Mapping[str, Any], is_list: bool = False) -> Iterator[tuple[str, bool]]:
    """The definitions that a key's value is made of, and whether it is a list of them."""
    if "$ref" in value:
        yield value["$ref"].rpartition("/")[2], is_list
    for choice in value.get("anyOf", []):
        yield from _references(choice, is_list)
    if "items" in value:
        yield from _references(value["items"], is_list=True)


def _table(schema: Mapping[str, Any]) -> str:
    lines = ["| key | value | default | meaning |", "|-|-|-|-|"]
    required = schema.get("required", [])
    for key, value in schema["properties"].items():
        default = "must be given" if key in required else _default(value)
        lines.append(f"| `{key}` | {words(value)} | {default} | {_text(value.get('description', ''))} |")
    return "\n".join(lines)


def words(value: Mapping[str, Any]) -> str:
    """What a value may be, in plain words."""
    if "anyOf" in value:
        choices = ["`null`" if choice.get("type") == "null" else words(choice) for choice in value["anyOf"]]
        return (", or " if ", " in choices[0] else " or ").join(choices)
    if "$ref" in value:
        return "section, below"
    if "const" in value:
        return f"`{value['const']}`"
    if "enum" in value:
        return ", ".join(f"`{choice}`" for choice in value["enum"])
    if value["type"] == "array":
        if "prefixItems" in value:
            return words(value["prefixItems"][0]).replace("number", f"{len(value['prefixItems'])} numbers", 1)
        return "list of " + ("sections, below" if "$ref" in value["items"] else f"{words(value['items'])}s")
    kind = "path" if value.get("format") == "path" else KINDS[value["type"]]
    return ", ".join([kind, *(f"{said} {_number(value[bound])}" for bound, said in BOUNDS.items() if bound in value)])


def _default(value: Mapping[str, Any]) -> str:
    if list(_references(value)) and isinstance(value.get("default"), dict):
        return "as below"
    default = value.get("default")
    if isinstance(default, bool) or default is None:
        return f"`{str(default).lower() if default is not None else 'null'}`"
    return f"`{default}`"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1e4 else f"{value:g}"


def _text(description: str) -> str:
    """A description whose signs Markdown leaves as they are; what stands between backticks is code."""
    pieces = " ".join(description.split()).split("`")
    for number in range(0, len(pieces), 2):
        for sign in "<|*":
            pieces[number] = pieces[number].replace(sign, f"\\{sign}")
    return "`".join(pieces)


def command_reference() -> str:
    """The Markdown of docs/commands.md."""
    root = typer.main.get_command(app)
    return "\n\n".join([COMMANDS_INTRO, *_commands(root, None, ["mtkit"])]) + "\n"


def _commands(command: Any, parent: Any, path: Sequence[str]) -> Iterator[str]:
    """A part for each command, groups before what they hold."""
    context = command.make_context(path[-1], [], parent=parent, resilient_parsing=True)
    if parent is not None:
        yield _command(command, context, path)
    for name, inner in command.load_all().items() if isinstance(command, CommandGroup) else ():
        yield from _commands(inner, context, [*path, name])


def _command(command: Any, context: Any, path: Sequence[str]) -> str:
    usage = " ".join([*path, *command.collect_usage_pieces(context)])
    text = "\n\n".join(map(_text, (command.help or "").split("\n\n")))
    level = "##" if len(path) == 2 else "###"
    return "\n\n".join([f"{level} {' '.join(path)}", text, f"`{usage}`", *_options(command, context)])


def _options(command: Any, context: Any) -> Iterator[str]:
    """A list for each heading of a command's help; no heading where there is one list."""
    sections = command.sections(context) if isinstance(command, Command) else {}
    lists = {heading: [row for row in rows if row[0] != "--help"] for heading, rows in sections.items()}
    for heading, rows in lists.items():
        title = f"{heading}:\n\n" if heading not in ("Arguments", "Options") else ""
        if rows:
            yield title + "\n".join(f"- `{written}`: {_text(meaning)}" for written, meaning in rows)


def main() -> None:
    """Write both files."""
    for name, text in (("reference.md", config_reference()), ("commands.md", command_reference())):
        (DOCS / name).write_text(text, encoding="utf-8")
        print(DOCS / name)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Write docs/reference.md, docs/serve-settings.md, docs/commands.md and docs/api.md from the code.

Run it after a change of any; a test compares.
"""

import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer.main

import mtkit
from mtkit.cli import app
from mtkit.cli.commands import CommandGroup
from mtkit.cli.help import Command
from mtkit.config.reading.loading import json_schema
from mtkit.config.serving import ServeConfig

DOCS = Path(__file__).resolve().parents[1] / "docs"
MADE = "<!-- made by scripts/make_reference.py: change the schema or the command, and run it again -->"
CONFIG_INTRO = f"""\
# Every key of a config
{MADE}

A config is a YAML file with the sections below. Only `data` and a limit in `train` are required. Relative paths start
from the folder of the file. `mtkit config FILE` prints the config with all defaults, and `mtkit config --schema` prints
this page as JSON Schema for editors. [configs](../configs) has complete examples with a comment on every key.

`--set SECTION.KEY=VALUE` changes a key for one command; the value is YAML, such as `train.max_epochs=null`. A number is
the index of a list's entry, as in `data.train.0.tgt=other.fr` for the first corpus; the index after the last adds an
entry. For a finished model only keys of `decode` can change."""
SERVE_INTRO = f"""\
# Every setting of `mtkit serve`
{MADE}

`mtkit serve --config FILE` reads a YAML file with the keys below. None is required. Relative paths start from the
folder of the file. `--set KEY=VALUE` changes a key for one call, such as `--set limits.max_chars=5000`. See
[serving.md](serving.md)."""
COMMANDS_INTRO = f"""\
# Every command
{MADE}

`mtkit COMMAND --help` prints the same. Every command also takes `--quiet` (warnings and errors only)."""
API_INTRO = f"""\
# mtkit in Python
{MADE}

The names on this page are public; [CONTRIBUTING.md](../CONTRIBUTING.md#deprecation-and-versions) says how they may
change. All other modules may change at any time. Train and use a first model, in a notebook or a script:

```python
import mtkit

config = mtkit.load_config(
    "configs/sample-en-fr.yaml",
    ["run_dir=runs/first", "model.d_model=32", "model.d_ff=64", "train.max_steps=20", "train.warmup_steps=5"],
)
result = mtkit.train(config)  # the same call again resumes the run
print(f"{{result.bundle}}: {{result.steps}} steps")

translator = mtkit.Translator.load(result.bundle, beam_size=2)
for translation in translator.stream(["I love oranges.", "Where are my keys?"]):
    print(translation)

evaluation = mtkit.evaluate(result.bundle, beam_size=1)  # on the test set of its config
bleu = evaluation.score("BLEU")
print(f"BLEU {{bleu.score:.1f}} ({{bleu.low:.1f}} to {{bleu.high:.1f}}), {{bleu.signature}}")
```

To see log lines and progress bars: `from mtkit.console import set_up_logging`, then `set_up_logging(quiet=False)`."""
API = {  # public names, and of a class with more the methods to show
    "load_config": [],
    "train": [],
    "evaluate": [],
    "Translator": ["load", "translate", "stream", "confidence"],
    "Translation": ["text", "score", "finished"],
    "Candidate": [],
    "translate_text": [],
    "translate_document": [],
    "TranslatedDocument": [],
    "Note": [],
    "Classifier": ["load", "classify"],
    "Classification": [],
    "TrainResult": [],
    "Evaluation": ["score"],
    "MetricScore": [],
    "Config": [],
    "MtkitError": [],
}
BOUNDS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
KINDS = {"integer": "whole number", "number": "number", "boolean": "`true` or `false`", "string": "text"}


def config_reference() -> str:
    """The Markdown of docs/reference.md."""
    return _keys(json_schema(), CONFIG_INTRO)


def serve_reference() -> str:
    """The Markdown of docs/serve-settings.md."""
    return _keys(ServeConfig.model_json_schema(), SERVE_INTRO)


def _keys(schema: Mapping[str, Any], intro: str) -> str:
    definitions = schema["$defs"]
    places: dict[str, list[str]] = {}  # of each definition: the keys that it stands under
    _note_places(schema, "", definitions, places)
    parts = [intro, "## At the top\n" + _table(schema)]
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
    if value["type"] == "object":
        kinds = [choice["type"] for choice in value["additionalProperties"].get("anyOf", [])]
        return "keys with their values" if "string" in kinds else "such values by share of the run"
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
    for name in command.commands if isinstance(command, CommandGroup) else ():
        yield from _commands(command.load(name), context, [*path, name])


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


def api_reference() -> str:
    """The Markdown of docs/api.md."""
    parts = [API_INTRO]
    for name in API:
        thing = getattr(mtkit, name)
        parts.append(f"## {name}\n\n" + "\n\n".join(_class(thing) if inspect.isclass(thing) else [_function(thing)]))
    return "\n\n".join(parts) + "\n"


def _class(thing: type) -> Iterator[str]:
    yield _docstring(thing.__doc__ or "")
    if thing is mtkit.Config:
        yield "`mtkit.load_config` makes one. Its sections and keys: [reference.md](reference.md)."
        return
    fields = dataclasses.fields(thing) if dataclasses.is_dataclass(thing) else ()
    if fields:
        yield "\n".join(f"- `{field.name}: {_kind(field.type)}`{_comment(thing, field.name)}" for field in fields)
    for name in API[thing.__name__]:
        member = getattr(thing, name)
        if isinstance(member, property):
            yield f"`.{name}`: {_docstring(member.__doc__)}"
        else:
            yield f"### {thing.__name__}.{name}\n\n{_function(member)}"


def _comment(thing: type, field: str) -> str:
    """What the comment behind a field says."""
    comment = re.search(rf"^    {field}: [^#\n]*# (.*)$", inspect.getsource(thing), re.MULTILINE)
    return f": {_text(comment[1])}" if comment else ""


def _function(function: Any) -> str:
    """A signature, one parameter a line, and what the docstring says."""
    lines = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in lines:
            lines.append("*")
        default = "" if parameter.default is parameter.empty else f" = {_shown(parameter.default)}"
        stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        if parameter.name != "self":
            lines.append(f"{stars}{parameter.name}: {_kind(parameter.annotation)}{default}")
    signature = "".join(f"    {line},\n" for line in lines)
    result = _kind(inspect.signature(function).return_annotation)
    head = f"{function.__qualname__}(\n{signature}) -> {result}"
    return f"```text\n{head}\n```\n\n{_docstring(function.__doc__)}"


def _kind(annotation: Any) -> str:
    """An annotation, without the modules of its names."""
    kind = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", kind)


def _shown(default: Any) -> str:
    shown = getattr(default, "__qualname__", repr(default))
    return "..." if " at 0x" in shown else shown  # an object without a name of its own


def _docstring(text: str | None) -> str:
    """Paragraphs, in which lines such as `name: meaning` become a list."""
    paragraphs = []
    for paragraph in inspect.cleandoc(text or "").split("\n\n"):
        parts = re.split(r"\n(?=[a-z_]+(?:, [a-z_]+)*: |Raises )", "\n" + paragraph)
        items = [_text(part) for part in parts if part.strip()]
        marked = [re.sub(r"^([a-z_]+(?:, [a-z_]+)*): ", r"- `\1`: ", item) for item in items]
        listed = "\n".join(item if item.startswith("- ") else f"\n{item}\n" for item in marked)
        paragraphs.append(re.sub(r"\n{3,}", "\n\n", listed).strip("\n"))
    return "\n\n".join(paragraphs)


def main() -> None:
    """Write the files."""
    pages = {
        **{"reference.md": config_reference(), "serve-settings.md": serve_reference()},
        **{"commands.md": command_reference(), "api.md": api_reference()},
    }
    for name, text in pages.items():
        (DOCS / name).write_text(text, encoding="utf-8")
        print(DOCS / name)


if __name__ == "__main__":
    main()

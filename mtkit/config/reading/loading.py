"""Load a config from YAML and overrides, check it, and write it as YAML or as JSON Schema."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from mtkit.config.augment import NOTHING
from mtkit.config.cleaning import CleanConfig
from mtkit.config.model import PRESETS
from mtkit.config.reading.overrides import apply_override
from mtkit.config.reading.problems import Origin, Override, Problem, explain, origin_of, report
from mtkit.config.reading.yaml_text import KeyPath, ParsedYaml, YamlSyntaxError, dotted, format_yaml, parse_yaml
from mtkit.config.schema import Config
from mtkit.config.section import Section
from mtkit.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from mtkit.config.serving import KeyFile, ServeConfig

_Root = TypeVar("_Root", bound=Section)

# Keys that mtkit had: the default, and what to do about another value. Files that mtkit wrote hold every key.
_REMOVED: dict[tuple[str, ...], tuple[object, str]] = {
    ("queue", "linger_ms"): (10, "remove it; the service waits at most 10 ms for a fuller batch"),
    ("decode", "epsilon"): (0.0, "remove it; limit the draws by decode.top_k or decode.top_p"),
    ("data", "fuzzy"): (0.0, "remove it; models did not learn to use similar sentences of a memory"),
}
_MOST_BYTES = 2**24  # of a YAML file: also ends the reading of a device without an end


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Load a YAML file, apply overrides such as "train.lr=1e-3", and fill in all defaults.

    Paths in the result are absolute. Relative paths in the file start from its folder; those in overrides, and the
    default of run_dir (runs/NAME), from the current folder.
    Raises ConfigError, which lists all problems with their lines.
    """
    config = _load(Config, path, overrides)
    if config.run_dir is None:
        config = config.model_copy(update={"run_dir": Path.cwd() / "runs" / Path(path).stem})
    return config


def load_written_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Load the config.yaml of a run or a bundle, which has every key that mtkit had when it wrote the file.

    A version without `augment` showed the text unchanged, whatever the defaults are now. Raises ConfigError.
    """
    config = load_config(path, overrides)
    return config if "augment" in config.model_fields_set else config.model_copy(update={"augment": NOTHING})


def load_serve_config(path: str | Path | None = None, overrides: Sequence[str] = ()) -> "ServeConfig":
    """Load the settings of a service from a YAML file, if any, and overrides such as "port=8080".

    Raises ConfigError, which lists all problems with their lines.
    """
    from mtkit.config.serving import ServeConfig  # here, because every command loads this module

    return _load(ServeConfig, path, overrides)


def load_key_file(path: str | Path) -> "KeyFile":
    """Load a file of hashed API keys. Raises ConfigError, which lists all problems with their lines."""
    from mtkit.config.serving import KeyFile

    return _load(KeyFile, path, ())


def _load(root: type[_Root], path: str | Path | None, overrides: Sequence[str]) -> _Root:
    """Load a YAML file, apply overrides and check the values."""
    parsed = ParsedYaml() if path is None else read_yaml(path)
    name = "the command line" if path is None else str(path)
    problems = [Problem(line, key, what) for line, key, what in parsed.faults]
    if parsed.value is not None and not isinstance(parsed.value, dict):
        raise ConfigError(report(name, [Problem(1, "", "must have sections, such as 'train:', with keys below them")]))
    values: dict[str, Any] = parsed.value or {}
    if path is not None and not values and not overrides and not problems:
        raise ConfigError(f"{path}: the file is empty; start from a copy of a file in configs/")
    origins: dict[KeyPath, Origin] = dict(parsed.lines)
    for index, text in enumerate(overrides):
        if isinstance(preset := values.get("model"), str) and preset in PRESETS:
            values["model"] = dict(PRESETS[preset])  # so that an override of one of its keys has a place
        problems += apply_override(Override(index, text), values, origins, root)
    problems += _without_removed_keys(values, origins)
    folder = None if path is None else Path(path).absolute().parent
    try:
        # Strict, and as JSON: "4" is text and true is not 1.
        context = {"base": folder, "is_part": bool(_at(values, "train", "init_from"))}
        config = root.model_validate_json(json.dumps(values), strict=True, context=context)
    except ValidationError as error:
        faulty = {problem.subject for problem in problems}
        # A value that fits none of a key's alternatives gives an error for each; dict.fromkeys merges them.
        explained = dict.fromkeys(
            explain(details, values, origins, root) for details in error.errors(include_url=False)
        )
        problems += [problem for problem in explained if problem.subject not in faulty]
        raise ConfigError(report(name, problems)) from error
    if problems:
        raise ConfigError(report(name, problems))
    return config


def load_clean_section(overrides: Sequence[str]) -> CleanConfig:
    """Return the default clean section with overrides such as "clean.numbers=false", without a file.

    Raises ConfigError, which lists all problems.
    """
    values: dict[str, Any] = {}
    origins: dict[KeyPath, Origin] = {}
    problems: list[Problem] = []
    for index, text in enumerate(overrides):
        if not text.strip().startswith("clean."):
            problems.append(Problem(Override(index, text), "", "without --config, you can set only keys of clean"))
        else:
            problems += apply_override(Override(index, text), values, origins)
    # What a config cannot do without; none of it is used.
    required = {"data": {"train": [{"tsv": "-"}], "dev": {"tsv": "-"}}, "train": {"max_steps": 1}}
    try:
        config = Config.model_validate_json(json.dumps({**required, **values}), strict=True)
    except ValidationError as error:
        problems += dict.fromkeys(explain(details, values, origins) for details in error.errors(include_url=False))
        raise ConfigError(report("the command line", problems)) from error
    if problems:
        raise ConfigError(report("the command line", problems))
    return config.clean


def _without_removed_keys(values: dict[str, Any], origins: dict[KeyPath, Origin]) -> Iterator[Problem]:
    """Remove keys that mtkit no longer has from the values; yield a problem for each key that had an effect."""
    for path, (default, remedy) in _REMOVED.items():
        section = _at(values, *path[:-1])
        if isinstance(section, dict) and section.pop(path[-1], default) != default:
            yield Problem(origin_of(path, origins), dotted(path), f"mtkit no longer has this key: {remedy}")


def _at(values: Any, *keys: str) -> Any:
    """Return the value under these keys; None if it is missing."""
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return values


def dump_config(config: Config) -> str:
    """Return YAML with every key, including defaults; load_config restores the same config from it in any folder."""
    return format_yaml(config.model_dump(mode="json"))


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the config file, for editors to complete and check keys."""
    schema = Config.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "mtkit config"}


def read_yaml(path: str | Path) -> ParsedYaml:
    """Read the values of a YAML file with their lines. Raises ConfigError if it cannot be read or is not YAML."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ConfigError(f"{path}: larger than {_MOST_BYTES // 2**20} MiB; check that it is a YAML file")
        text = content.decode("utf-8")
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file{_like_files(Path(path))}") from error
    except IsADirectoryError as error:
        inner = Path(path, "config.yaml")
        hint = f"did you mean {inner}?" if inner.is_file() else "give a YAML file"
        raise ConfigError(f"{path}: is a folder; {hint}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        byte = error.object[error.start]
        raise ConfigError(f"{path}: line {line}: not UTF-8 (byte 0x{byte:02x}); save the file as UTF-8") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return parse_yaml(text)
    except YamlSyntaxError as error:
        raise ConfigError(report(str(path), [Problem(error.line, "", str(error))])) from error


def _like_files(path: Path) -> str:
    try:
        paths = {entry.stem: str(entry) for entry in path.parent.iterdir() if entry.suffix in (".yaml", ".yml")}
    except OSError:
        return ""
    hint = did_you_mean(path.stem, paths, shown=paths)  # an equal extension alone says nothing
    return f"; {hint}" if hint else ""

"""Turn errors of the schema into messages for the author of a config: the place, the problem and the allowed values."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Self, Union, get_args, get_origin

from pydantic import BeforeValidator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from mtkit.config.reading.yaml_text import KeyPath, dotted
from mtkit.config.schema import Config
from mtkit.config.section import Section
from mtkit.errors import did_you_mean


class Setting(str):
    """An override, such as "decode.beam_size=0", that remembers the user's spelling: `--beam-size 0`."""

    given_as: str

    def __new__(cls, text: str, given_as: str) -> Self:  # noqa: D102
        setting = super().__new__(cls, text)
        setting.given_as = given_as
        return setting


@dataclass(frozen=True)
class Override:
    """One change of a config's key; index: its position among all changes."""

    index: int
    text: str

    @property
    def place(self) -> str:
        """The user's spelling of the change."""
        return getattr(self.text, "given_as", f"override {self.text}")

    @property
    def key(self) -> str:
        """The part before the equals sign."""
        return self.text.partition("=")[0].strip()


# Other toolkits' names of some keys.
_NAMES_ELSEWHERE = {
    **dict.fromkeys(("learning_rate", "learn_rate", "initial_learning_rate"), "train.lr"),
    **dict.fromkeys(("dropout", "transformer_dropout"), "model.residual_dropout"),
    **dict.fromkeys(("batch_size", "mini_batch", "max_tokens_per_batch"), "train.batch_tokens"),
    **dict.fromkeys(("accum_count", "update_freq", "update_interval", "optimizer_delay"), "train.accumulate"),
    **dict.fromkeys(("guided_alignment_weight", "lambda_align"), "train.guided_alignment"),
    **dict.fromkeys(("epochs", "after_epochs"), "train.max_epochs"),
    **dict.fromkeys(("train_steps", "max_updates", "after_batches"), "train.max_steps"),
    **dict.fromkeys(("warmup", "lr_warmup", "learning_rate_warmup", "warmup_updates"), "train.warmup_steps"),
    **dict.fromkeys(("validation_freq", "valid_steps", "valid_freq"), "train.validate_every"),
    **dict.fromkeys(("early_stopping", "early_stopping_patience"), "train.patience"),
    **dict.fromkeys(("exponential_smoothing", "average_decay"), "train.ema"),
    **dict.fromkeys(("num_layers", "layers", "enc_layers", "enc_depth"), "model.n_encoder_layers"),
    **dict.fromkeys(("dec_layers", "dec_depth"), "model.n_decoder_layers"),
    **dict.fromkeys(("num_heads", "heads", "transformer_heads"), "model.n_heads"),
    **dict.fromkeys(("hidden_size", "embedding_dim", "dim_emb", "rnn_size"), "model.d_model"),
    **dict.fromkeys(("ff_size", "transformer_ff", "transformer_dim_ffn"), "model.d_ff"),
    **dict.fromkeys(("tied_embeddings", "tied_softmax", "share_decoder_embeddings"), "model.tie"),
    **dict.fromkeys(("alpha", "beam_alpha", "normalize"), "decode.length_penalty"),
    **dict.fromkeys(("max_sent_length", "max_length", "max_seq_len"), "data.max_tokens"),
}

Origin = int | Override | None  # the line of the file (from 1), or the override, that a value comes from


@dataclass(frozen=True)
class Problem:
    """One problem in a config; subject: the key, with its value if that matters."""

    origin: Origin
    subject: str
    what: str

    def __str__(self) -> str:
        sentence = f"{self.subject}: {self.what}" if self.subject else self.what
        if isinstance(self.origin, Override):
            same_key = self.subject.partition("=")[0] == self.origin.key
            return f"{self.origin.place}: {self.what if same_key else sentence}"
        return sentence if self.origin is None else f"line {self.origin}: {sentence}"


def report(file: str, problems: list[Problem]) -> str:
    """List all problems under the file's name: first those of the file, by line, then those of overrides."""

    def order(problem: Problem) -> tuple[bool, int]:
        if isinstance(problem.origin, Override):
            return True, problem.origin.index
        return False, problem.origin or 0

    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return "\n  ".join([f"{file}: {count}", *map(str, sorted(problems, key=order))])


def explain(
    error: ErrorDetails, values: object, origins: Mapping[KeyPath, Origin], root: type[Section] = Config
) -> Problem:
    """Convert one of pydantic's errors about `values`, an intended `root`, to a Problem with its origin."""
    error = {**error, "loc": _as_written(error["loc"], values)}
    path: KeyPath = error["loc"]
    kind = error["type"]
    if kind == "json_invalid":  # valid YAML that JSON cannot express
        too_deep = "recursion" in str(error["ctx"]["error"])
        what = (
            "brackets are nested too deeply" if too_deep else "text contains half of a surrogate pair, such as \\ud800"
        )
        return Problem(None, "", f"not a config: {what}")
    if kind == "extra_forbidden":
        return Problem(origin_of(path, origins), dotted(path), f"unknown key; {_right_key(path, root)}")
    if kind == "value_error":
        message = str(error["ctx"]["error"])
        if path and _section_in(field_at(path, root)[0].annotation) is None:  # a check of one value
            return Problem(origin_of(path, origins), dotted(field_at(path, root)[1]), message)
        return _explain_conflict(path, message, origins, root)
    field, path = field_at(path, root)
    if kind in ("string_type", "literal_error") and isinstance(error["loc"][-1], int):
        path = error["loc"]  # one entry of a list
    if kind == "missing" and error["loc"] == path:
        line = origin_of(path[:-1], origins)
        return Problem(line if isinstance(line, int) else None, dotted(path), f"missing ({field.description})")
    value = _value_at(values, path)
    shown = json.dumps(value, ensure_ascii=False)
    subject = dotted(path) if isinstance(value, list | dict | None) or len(shown) > 60 else f"{dotted(path)}={shown}"
    return Problem(origin_of(path, origins), subject, _what_is_allowed(field, value, kind))


def origin_of(path: KeyPath, origins: Mapping[KeyPath, Origin]) -> Origin:
    """Return the origin of the value at path, or of the nearest section around it."""
    for length in range(len(path), 0, -1):
        if path[:length] in origins:
            return origins[path[:length]]
    return None


def field_at(path: KeyPath, root: type[Section] = Config) -> tuple[FieldInfo, KeyPath]:
    """Return the schema's field at or above path, and its path; an item of a list belongs to the list's field."""
    section = root
    field: FieldInfo | None = None
    field_path = path
    for length, part in enumerate(path, start=1):
        if isinstance(part, str) and part in section.model_fields:
            field, field_path = section.model_fields[part], path[:length]
            section = _section_in(field.annotation) or section
        elif field is not None and length == len(path) and _section_in(field.annotation):
            field_path = path  # an entry of a list of sections has its own path
    if field is None:
        raise ValueError(f"no field at {dotted(path)}")
    return field, field_path


def section_at(path: KeyPath, root: type[Section] = Config) -> type[Section]:
    """Return the schema's section at path."""
    if not path:
        return root
    section = _section_in(field_at(path, root)[0].annotation)
    if section is None:
        raise ValueError(f"{dotted(path)} is not a section")
    return section


def is_path(field: FieldInfo) -> bool:
    """Return whether the field's value is a path, or a list of paths."""
    kinds = _alternatives(field.annotation)
    items = [item for kind in kinds if get_origin(kind) is list for item in _alternatives(get_args(kind)[0])]
    return Path in (*kinds, *items)


def _explain_conflict(
    section_path: KeyPath, message: str, origins: Mapping[KeyPath, Origin], root: type[Section]
) -> Problem:
    """Explain a failed check of a section, whose message has keys as `key=value`, the most important one first."""
    section = section_at(section_path, root)
    named: list[KeyPath] = []

    def name_in_full(match: re.Match[str]) -> str:
        path: KeyPath = (*section_path, *match[1].split("."))
        if match[1].partition(".")[0] not in section.model_fields:
            return match[0]
        named.append(path)
        return dotted(path) + "="

    message = re.sub(r"\b([a-z_][a-z0-9_.]*)=", name_in_full, message)
    exact = [origins[path] for path in named if path in origins]
    from_overrides = [origin for origin in exact if isinstance(origin, Override)]
    origin = next(iter([*from_overrides, *exact]), origin_of(section_path, origins))
    starts_with_key = bool(named) and message.startswith(dotted(named[0]) + "=")
    return Problem(origin, "" if starts_with_key else dotted(section_path), message)


def _right_key(path: KeyPath, root: type[Section]) -> str:
    """Suggest a key for an unknown one: the same name elsewhere, a similar one here, a similar one elsewhere."""
    key, section = str(path[-1]), section_at(path[:-1], root)
    elsewhere = dict(_leaf_keys(root))  # name -> full path; the first section that has it
    if key in elsewhere:
        return f"did you mean {elsewhere[key]}?"
    if root is Config and (ours := _NAMES_ELSEWHERE.get(key)):
        return f"did you mean {ours}?"
    if hint := did_you_mean(key, section.model_fields):
        return hint
    if hint := did_you_mean(key, elsewhere, likeness=0.75, shown=elsewhere):
        return hint
    return f"the keys here are {', '.join(section.model_fields)}"


def full_key(name: str) -> str | None:
    """Return the key of a config with this name, such as train.budget, or that has this name in other toolkits.

    None for a key of a corpus, such as src, because it does not say of which one.
    """
    keys = {name: key for name, key in _leaf_keys(Config) if not key.startswith(("data.dev.", "data.test."))}
    return keys.get(name) or _NAMES_ELSEWHERE.get(name)


def _leaf_keys(section: type[Section], path: KeyPath = ()) -> Iterator[tuple[str, str]]:
    for name, field in reversed(section.model_fields.items()):
        inner = _section_in(field.annotation)
        if inner is None:
            yield name, dotted((*path, name))
        elif get_origin(field.annotation) is not list or _takes_single(field):
            yield from _leaf_keys(inner, (*path, name))


def _takes_single(field: FieldInfo) -> bool:
    """Return whether a list field also accepts a single section; only such fields have a check before the type."""
    return any(isinstance(note, BeforeValidator) for note in field.metadata)


def _as_written(path: KeyPath, values: Any) -> KeyPath:
    """Return the path without the index of a section that the schema accepts as a list of one."""
    written: list[int | str] = []
    for part in path:
        if part == 0 and not isinstance(values, list):
            continue
        written.append(part)
        try:
            values = values[part]
        except (LookupError, TypeError):
            values = None
    return tuple(written)


def _what_is_allowed(field: FieldInfo, value: object, kind: str) -> str:
    section = _section_in(field.annotation)
    if kind in ("too_short", "string_too_short"):
        return "must not be empty"
    if value is None:
        remedy = "write its keys below it, or leave it out" if section else f"must be {describe_values(field)}"
        return f"is empty; {remedy}"
    if kind == "list_type" and section is not None:
        return f"must be a list: a dash before each entry, as in '- {next(iter(section.model_fields))}: ...'"
    if section is not None:
        return f"must be a section with the keys {', '.join(section.model_fields)}"
    if kind == "string_type" and isinstance(value, int | float):
        return "must be text; put it in quotes"
    if kind == "string_pattern_mismatch":
        return f"must be one of: {field.description}"
    return f"must be {describe_values(field)}{_right_word(field, value)}"


def _right_word(field: FieldInfo, value: object) -> str:
    alternatives = _alternatives(field.annotation)
    words = [word for one in alternatives for word in (*get_args(one), *_words_listed(one))]
    listed = any(_words_listed(one) for one in alternatives)
    shown = {word: f"[{word}]" if listed else word for word in words if isinstance(word, str)}
    hint = did_you_mean(str(value), shown, shown=shown)
    return f"; {hint}" if hint else ""


def describe_values(field: FieldInfo) -> str:
    """Describe the values of a field: type, range, and whether it may be null."""
    limits, names = [*field.metadata, *_limits_of_parts(field.annotation)], []
    for alternative in _alternatives(field.annotation):
        if get_origin(alternative) is Literal:
            words = get_args(alternative)
            names.append(("one of " if len(words) > 1 else "") + ", ".join(map(str, words)))
        elif get_origin(alternative) is tuple:
            items = get_args(alternative)
            limits += [limit for note in getattr(items[0], "__metadata__", ()) for limit in note.metadata]
            names.append(f"a list of {len(items)} {'texts' if items[0] is str else 'numbers, each'}")
        elif get_origin(alternative) is dict:
            names.append("values by share of the run, from 0 to below 1, such as {0: 1, 0.5: 2}")
        elif words := _words_listed(alternative):
            names.append(f"any of {', '.join(words)}, in a list")
        elif get_origin(alternative) is list and get_args(alternative)[0] in _TYPE_NAMES:
            names.append(f"a list, each entry {_TYPE_NAMES[get_args(alternative)[0]]}")
        else:
            names.append(_TYPE_NAMES.get(alternative, "given"))
    bounds = [f"{words} {getattr(limit, name)}" for limit in limits for name, words in _BOUNDS if hasattr(limit, name)]
    described = " or ".join(names) + (" " + " and ".join(bounds) if bounds else "")
    return described + (" (or null)" if NoneType in get_args(field.annotation) else "")


def _words_listed(annotation: Any) -> tuple[str, ...]:
    """Return the allowed words for entries of a list; () for any other type."""
    item = get_args(annotation)[0] if get_origin(annotation) is list else None
    return get_args(item) if get_origin(item) is Literal else ()


def _limits_of_parts(annotation: Any) -> list[Any]:
    """Return the limits of single alternatives, such as of the number in "auto" or a number above 0."""
    parts = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else ()
    notes = [note for part in parts for note in getattr(part, "__metadata__", ())]
    return [limit for note in notes if isinstance(note, FieldInfo) for limit in note.metadata]


_TYPE_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text", Path: "a path"}
_BOUNDS = (("ge", "of at least"), ("gt", "above"), ("le", "at most"), ("lt", "below"))


def _alternatives(annotation: Any) -> list[Any]:
    """Return the types that an annotation allows, without None and without pydantic's notes."""
    if get_origin(annotation) in (Union, UnionType):
        return [inner for part in get_args(annotation) for inner in _alternatives(part) if inner is not NoneType]
    if hasattr(annotation, "__metadata__"):
        return _alternatives(annotation.__origin__)
    return [annotation]


def _section_in(annotation: Any) -> type[Section] | None:
    """Return the section class in an annotation, or in its list."""
    for alternative in _alternatives(annotation):
        candidate = get_args(alternative)[0] if get_origin(alternative) is list else alternative
        if isinstance(candidate, type) and issubclass(candidate, Section):
            return candidate
    return None


def _value_at(values: Any, path: KeyPath) -> Any:
    for part in path:
        values = values[part]
    return values

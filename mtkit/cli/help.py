"""Format a command's help: options under headings, and values with plain names such as FILE and N."""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import Enum
from inspect import unwrap
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

_REQUIRED = "Required options"
NAMES = {Path: "FILE", int: "N", float: "X", str: "TEXT"}  # of a value of this type, where an option has no metavar


class Command(TyperCommand):
    """A command with this help; if it has --config and no arguments, it also accepts `mtkit train my.yaml`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments after the command's name."""
        try:
            return self._parse(ctx, args)
        except Exception as error:
            option = getattr(error, "option_name", "")  # of an unknown option; Typer does not export this error
            if not (key := self._key_of(option, ctx)):
                raise
            fail: Callable[[str], NoReturn] = ctx.fail
            fail(f"no such option: {option}; to change this key of the config, use --set {key}=VALUE")

    def _parse(self, ctx: Any, args: list[str]) -> list[str]:
        if self._config_as_argument(ctx):
            written, rest, _ = self.make_parser(ctx).parse_args(list(args))
            if len(rest) == 1 and "config_path" not in written:
                args.remove(rest[0])
                args = ["--config", rest[0], *args]
        try:
            return super().parse_args(ctx, list(args))
        except typer.BadParameter as error:  # in Typer's words, which name Python's types
            param: Any = error.param
            if param is None:
                raise
            values: dict[str, Any] = self.make_parser(ctx).parse_args(list(args))[0]
            fail: Callable[[str], NoReturn] = ctx.fail
            fail(self._what_is_wrong(param, values.get(param.name), ctx))

    def _key_of(self, option: str, ctx: Any) -> str | None:
        """Return the key of the config that an unknown option seems to mean, if --set can change it."""
        setting = next((param for param in self.get_params(ctx) if "--set" in param.opts), None)
        if not option or setting is None:
            return None
        from mtkit.config.reading.problems import full_key

        key = full_key(option.lstrip("-").replace("-", "_")) or ""
        section = (setting.metavar or "").partition(".")[0]  # SECTION, or the only one that the command can change
        return key if section in ("SECTION", key.partition(".")[0]) else None

    def _what_is_wrong(self, param: Any, given: Any, ctx: Any) -> str:
        """Explain a missing or wrong value of a parameter. given: the value or values that the user wrote."""
        values = given if isinstance(given, list | tuple) else [given]
        values = [value for value in values if isinstance(value, str)]  # not Typer's mark of a missing one
        is_option, hint = param.param_type_name == "option", self._hint(param)
        name = max(param.opts, key=len) if is_option else _value_name(param, hint)
        if not values and name == "--config":
            return f"give one YAML file, the config of the run: {ctx.command_path} CONFIG"
        if not values:
            return f"{name} {_value_name(param, hint)} is required" if is_option else f"{name} is missing"
        if _name_of_type(get_args(hint)[0]) == NAMES[Path]:  # of these Typer checks only whether they can be read
            unreadable = [value for value in values if not os.access(value, os.R_OK)]
            return f"{name} {' '.join(unreadable)}: no permission to read this"
        return f"{name} {' '.join(values)}: must be {_allowed(hint)}"

    def _config_as_argument(self, ctx: Any) -> str:
        """Return the name of this argument in the usage line; "" if the command does not take it."""
        params = self.get_params(ctx)
        option = next((p for p in params if "--config" in p.opts), None)
        if option is None or any(p.param_type_name == "argument" for p in params):
            return ""
        return "CONFIG" if option.required else "[CONFIG]"

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words after the command's name in its usage line."""
        arguments = [p for p in self.get_params(ctx) if p.param_type_name == "argument"]
        names = [_value_name(p, self._hint(p)) for p in arguments]
        shown = [n if p.required else f"[{n}]" for p, n in zip(arguments, names, strict=True)]
        return [piece for piece in ("[OPTIONS]", self._config_as_argument(ctx), *shown) if piece]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options under their headings."""
        for heading, rows in self.sections(ctx).items():
            with formatter.section(heading):
                formatter.write_dl(rows)

    def sections(self, ctx: Any) -> dict[str, list[tuple[str, str]]]:
        """Return the rows of each heading: the spelling of an argument or option, and its meaning.

        The heading of an option that is not required is its rich_help_panel in Typer.
        """
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], _REQUIRED: []}
        for param in self.get_params(ctx):
            sections.setdefault(_heading(param), []).append(_row(param, self._hint(param)))
        rest = sections.pop("Options", [])  # last: --help is one of them
        return {heading: rows for heading, rows in {**sections, "Options": rest}.items() if rows}

    def _hint(self, param: Any) -> Any:
        """Return the annotation of the function's parameter; None for --help."""
        return get_type_hints(unwrap(self.callback), include_extras=True).get(param.name) if self.callback else None


def _heading(param: Any) -> str:
    if param.param_type_name == "argument":
        return "Arguments"
    return _REQUIRED if param.required else getattr(param, "rich_help_panel", None) or "Options"


def _row(param: Any, hint: Any) -> tuple[str, str]:
    if param.param_type_name == "argument":
        written = _value_name(param, hint)
    else:
        written = ", ".join(sorted(param.opts, key=lambda option: option.startswith("--")))
        written += "" if param.is_flag else f" {_value_name(param, hint)}"
    facts = "; ".join([*_default(param), *_bounds(hint), *(["required"] if param.required else [])])
    return written, "  ".join(filter(None, [param.help, f"[{facts}]" if facts else ""]))


def _value_name(param: Any, hint: Any) -> str:
    name = param.metavar or _name_of_type(get_args(hint)[0])
    return f"{name}..." if param.nargs == -1 else str(name)


def _name_of_type(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "|".join(map(str, get_args(kind)))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(member.value) for member in kind)
    if parts := [part for part in get_args(kind) if part is not type(None)]:  # X | None, list[X]
        return _name_of_type(parts[0])
    return NAMES[kind]


def _allowed(hint: Any) -> str:
    """Describe the values of a parameter with this annotation."""
    name = _name_of_type(get_args(hint)[0])
    numbers = {NAMES[int]: "a whole number", NAMES[float]: "a number"}
    return ", ".join([numbers.get(name) or f"one of {name.replace('|', ', ')}", *_bounds(hint)])


def _default(param: Any) -> list[str]:
    default = param.default
    if default is None or isinstance(default, bool) or default in ("", [], ()) or param.required:
        return []
    return [f"default: {default:g}" if isinstance(default, float) else f"default: {getattr(default, 'value', default)}"]


def _bounds(hint: Any) -> list[str]:
    """Return what typer.Option declares about the values."""
    info = get_args(hint)[1] if hint is not None else None
    low, high = getattr(info, "min", None), getattr(info, "max", None)
    if low is not None and high is not None:
        return [f"{low:g} to {high:g}"]
    return [f"at least {low:g}"] if low is not None else []

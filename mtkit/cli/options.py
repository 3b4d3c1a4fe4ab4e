"""Options that several commands have."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import typer

from mtkit.errors import DataError, UsageError

_Text = TypeVar("_Text", str, str | None, list[str], list[str] | None)

ConfigOption = Annotated[Path, typer.Option("--config", "-c", help="The run's YAML file; see configs/ for examples.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="SECTION.KEY=VALUE",
        help="Change one key of the config; repeat as needed. Paths start from the current folder.",
    ),
]
DecodeSetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="decode.KEY=VALUE",
        help="Change one key of the model's decode section; repeat as needed. Paths start from the current folder.",
    ),
]
ModelOption = Annotated[
    Path | None,
    typer.Option("--model", help="Run or bundle folder; default: $MTKIT_MODEL, else the newest run in ./runs."),
]
EnsembleOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--model",
        help="Run or bundle folder; default: $MTKIT_MODEL, else the newest run in ./runs. Several are an ensemble.",
    ),
]
BeamSizeOption = Annotated[
    int | None,
    typer.Option("--beam-size", min=1, help="Hypotheses kept; 1 is greedy. Default: the model's config."),
]
InputOption = Annotated[Path | None, typer.Option("--input", "-i", help="Text file, .gz too; default: stdin.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write here (.gz by name) once all is done; default: stdout.")
]


def valid_text(param: typer.CallbackParam, given: _Text) -> _Text:
    """Callback of each argument and option that takes text. Raises DataError if one is not valid UTF-8."""
    texts = given if isinstance(given, list) else [given]
    for number, text in enumerate(texts, start=1):
        try:
            (text or "").encode("utf-8")
        except UnicodeEncodeError:  # the shell passed bytes, which Python keeps as surrogates
            place = f"argument {number}" if param.param_type_name == "argument" else param.opts[0]
            raise DataError(f"{place}: {text!r} is not valid UTF-8; convert it first") from None
    return given


def file_named(*suffixes: str) -> Callable[[typer.CallbackParam, Path | None], Path | None]:
    """A callback that lets only files pass whose name ends in one of these, if any, and whose folder can be written to.

    For what is written after long work, and would be lost.
    """

    def check(param: typer.CallbackParam, output: Path | None) -> Path | None:
        option = param.opts[0]
        if output is None:
            return None
        if suffixes and output.suffix.lower() not in suffixes:
            raise UsageError(f"{option} {output}: the name must end in {' or '.join(suffixes)}")
        if output.is_dir():
            raise UsageError(f"{option} {output}: this is a folder; name a file in it")
        if output.exists() and not output.is_file():  # /dev/stdout, a named pipe
            return output
        folder = next(parent for parent in output.parents if parent.exists())  # those that are missing will be made
        if not folder.is_dir():
            raise UsageError(f"{option} {output}: {folder} is a file, no folder")
        if not os.access(folder, os.W_OK):
            raise UsageError(f"{option} {output}: no permission to write to {folder}; choose another folder")
        return output

    return check


def check_other_folder(out: Path) -> None:
    """Raises UsageError if this is the folder that the user is in: another one would take its place."""
    if out.resolve() == Path.cwd().resolve():
        raise UsageError(f"--out {out}: the folder that you are in; give a new one, such as {out}/model")


def check_new_folder(out: Path) -> None:
    """Raises UsageError if writing this folder would replace something."""
    check_other_folder(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"--out {out}: exists and is not empty; give a new folder, or remove it first")


def _known_device(name: str) -> str:
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", name):
        raise UsageError(f"--device {name}: not one of auto, cpu, mps, cuda, cuda:N")
    return name


DeviceOption = Annotated[str, typer.Option("--device", callback=_known_device, help="auto, cpu, mps, cuda or cuda:N.")]
Engine = Literal["auto", "native", "ctranslate2"]
EngineOption = Annotated[
    Engine | None,
    typer.Option(help="auto takes CTranslate2 where the bundle has its model and it knows all options."),
]

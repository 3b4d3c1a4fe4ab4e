"""Options that several commands share, and checks of their values."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from mtkit.errors import DataError, UsageError
from mtkit.files import file_in_the_way

if TYPE_CHECKING:
    from mtkit.config.schema import Config

TEXT, MODEL, OUTPUT = "Text", "Model and search", "Output"  # headings of a command's options
DOCUMENT = "Documents"

_Text = TypeVar("_Text", str, str | None, list[str], list[str] | None)

_CONFIG = typer.Option("--config", "-c", help="YAML file of the run; you may leave out the name of this option.")
ConfigOption = Annotated[Path, _CONFIG]
OptionalConfigOption = Annotated[Path | None, _CONFIG]


def _from_command_line(given: list[str] | None) -> list[str] | None:
    """Make messages about a value mention the option that set it."""
    from mtkit.config.reading import problems

    return given and [problems.Setting(text, f"--set {text}") for text in given]


SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="SECTION.KEY=VALUE",
        callback=_from_command_line,
        help="Change one key of the config; repeat for several. Paths are relative to the current folder.",
    ),
]
DecodeSetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="decode.KEY=VALUE",
        callback=_from_command_line,
        rich_help_panel=MODEL,
        help="Change one key of the model's decode section; repeat for several. Paths are relative to the current "
        "folder.",
    ),
]
ModelOption = Annotated[
    Path | None,
    typer.Option(
        "--model",
        metavar="FOLDER",
        rich_help_panel=MODEL,
        help="Run or bundle. Default: $MTKIT_MODEL, else the newest run in ./runs.",
    ),
]
EnsembleOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--model",
        metavar="FOLDER",
        rich_help_panel=MODEL,
        help="Run or bundle; repeat for an ensemble. Default: $MTKIT_MODEL, else the newest run in ./runs.",
    ),
]
BeamSizeOption = Annotated[
    int | None,
    typer.Option(
        "--beam-size",
        min=1,
        max=1000,
        rich_help_panel=MODEL,
        help="Number of hypotheses to keep at each step; 1 is greedy search. Default: from the model's config.",
    ),
]


def _named_input(path: Path | None) -> Path | None:
    if str(path) == "-":
        raise UsageError("--input -: not a file name; leave out --input to read standard input")
    return path


InputOption = Annotated[
    Path | None,
    typer.Option(
        "--input",
        "-i",
        callback=_named_input,
        rich_help_panel=TEXT,
        help="Read this text file; may end in .gz, .xz or .zst. Default: standard input.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", rich_help_panel=OUTPUT, help="Print the result as JSON.")]


def load_run_config(path: Path, overrides: list[str] | None) -> Config:
    """Load and check a config; with train.init_from, that model fills in missing keys of model and tokenizer."""
    from mtkit.config.reading import loading
    from mtkit.pair_files import one_file

    if one_file.extension(path) in (*one_file.EXTENSIONS, ".zip"):
        raise UsageError(
            f"{path}: this is text, not the config of a run. To adapt a model to it: mtkit adapt MODEL {path} --out "
            f"FOLDER; to train a model from the beginning: mtkit data split {path} -o FOLDER, which writes a config"
        )
    config = loading.load_config(path, overrides or [])
    if config.train.init_from is None:
        return config
    from mtkit.training.preparation import warm_start

    return warm_start.inherit(config)


def valid_text(param: typer.CallbackParam, given: _Text) -> _Text:
    """Check an argument or option that takes text. Raises DataError if it is not valid UTF-8."""
    texts = given if isinstance(given, list) else [given]
    for number, text in enumerate(texts, start=1):
        try:
            (text or "").encode("utf-8")
        except UnicodeEncodeError:  # the shell passed bytes, which Python keeps as surrogates
            place = f"argument {number}" if param.param_type_name == "argument" else param.opts[0]
            raise DataError(f"{place}: {text!r} is not valid UTF-8; convert it first") from None
    return given


def file_named(*suffixes: str) -> Callable[[typer.CallbackParam, Path | None], Path | None]:
    """Return a check of an output file's name and folder, so that mistakes show before hours of work.

    suffixes: the allowed file extensions; none allows any name.
    """

    def check(param: typer.CallbackParam, output: Path | None) -> Path | None:
        option = param.opts[0]
        if output is None:
            return None
        if str(output) == "-":
            raise UsageError(
                f"{option} -: not a file name; leave out {option} if the command can write to standard output"
            )
        if suffixes and output.suffix.lower() not in suffixes:
            raise UsageError(f"{option} {output}: the name must end in {' or '.join(suffixes)}")
        if output.is_dir():
            raise UsageError(f"{option} {output}: this is a folder; name a file in it")
        if output.exists() and not output.is_file():  # /dev/stdout, a named pipe
            return output
        folder = output.parent
        if (part := file_in_the_way(folder)) is not None:
            raise UsageError(f"{option} {output}: {part} is a file, not a folder; choose another name")
        if not folder.exists():
            raise UsageError(
                f"{option} {output}: the folder {folder} does not exist; create it first, or correct the name"
            )
        check_writable(output, option)
        return output

    return check


def output_option(*names: str, suffixes: Sequence[str] = (), help: str) -> Any:
    """Return an option for an output file, by default --output. suffixes: the allowed file extensions."""
    return typer.Option(
        *(names or ("--output", "-o")), callback=file_named(*suffixes), rich_help_panel=OUTPUT, help=help
    )


OutputOption = Annotated[
    Path | None,
    output_option(
        help="Write to this file, which appears when it is complete; may end in .gz, .xz or .zst. Default: standard "
        "output."
    ),
]


def check_other_folder(out: Path, option: str = "--out") -> None:
    """Raise UsageError for "-", a file, what is below one, the current folder, and where this user may not write."""
    if (part := file_in_the_way(out)) is not None:
        which = "this" if part == out else part
        raise UsageError(f"{option} {out}: {which} is a file, but the command writes a folder; choose another name")
    if str(out) == "-":
        raise UsageError(f"{option} -: not a folder; the command writes a folder of files")
    if out.resolve() == Path.cwd().resolve():
        raise UsageError(f"{option} {out}: this is the current folder; choose a new one, such as {out}/model")
    check_writable(out, option)


def check_writable(out: Path, option: str = "--out") -> None:
    """Raise UsageError if this user may not write to a folder, or to the one in which a file or folder is to be."""
    folder = next((folder for folder in (out, *out.parents) if folder.is_dir()), Path.cwd())
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{option} {out}: no permission to write to {folder}; choose another folder")


def check_budget(budget: str) -> None:
    """Raise UsageError if --budget is not a time, such as 30m."""
    from mtkit.config import durations

    try:
        durations.seconds_of(budget)
    except ValueError as error:
        raise UsageError(f"--budget {error}") from None


def check_new_folder(out: Path, option: str = "--out") -> None:
    """Raise UsageError if this folder exists and is not empty."""
    check_other_folder(out, option)
    if out.exists() and any(out.iterdir()):
        raise UsageError(f"{option} {out}: already exists and is not empty; choose a new folder, or remove it first")


def _known_device(name: str) -> str:
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", name):
        raise UsageError(f"--device {name}: not one of auto, cpu, mps, cuda, cuda:N")
    return name


DeviceOption = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="NAME",
        callback=_known_device,
        rich_help_panel=MODEL,
        help="Device to compute on: auto, cpu, mps, cuda or cuda:N.",
    ),
]
Engine = Literal["auto", "native", "ctranslate2"]
EngineOption = Annotated[
    Engine | None,
    typer.Option(
        rich_help_panel=MODEL,
        help="auto selects the fastest engine of equal quality, or for sentences as arguments and for a pipe the one "
        "that starts soonest. Default: from the model's config.",
    ),
]

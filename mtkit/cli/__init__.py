"""The command line: one module per command, which parses the options, calls the library and prints the result."""

import errno
import gc
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

import mtkit
from mtkit.cli.commands import RootGroup
from mtkit.errors import MtkitError
from mtkit.jobs.interrupts import termination_as_interrupt


class _Commands(RootGroup):
    """The command `mtkit`: accepts --quiet anywhere and turns expected errors into a message and an exit code."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        quiet = [arg for arg in args[:end] if arg == "--quiet"]
        with _errors_explained():  # --help and --version print here
            return super().parse_args(ctx, quiet[:1] + [arg for arg in args[:end] if arg != "--quiet"] + args[end:])

    def invoke(self, ctx: Any) -> Any:
        with _errors_explained(), termination_as_interrupt():
            return super().invoke(ctx)


@contextmanager
def _errors_explained() -> Iterator[None]:
    """Turn an expected error in the block into a message and an exit code."""
    try:
        try:
            yield
        except typer.Exit:
            sys.stdout.flush()
            raise
        sys.stdout.flush()  # here, so that a full disk is reported
    except MtkitError as error:
        raise _stopped(str(error), error.exit_code) from error
    except KeyboardInterrupt as error:
        raise _stopped("interrupted", 130) from error
    except MemoryError as error:
        raise _stopped(f"not enough memory{f': {error}' if str(error) else ''}; close other programs", 1) from error
    except BrokenPipeError as error:  # the reader of our output has closed the pipe
        _forget_stdout()
        raise typer.Exit(1) from error
    except OSError as error:
        if error.errno is None:
            raise
        place = f"{error.filename}: " if error.filename is not None else ""
        raise _stopped(f"{place}{_problem(error)}", 1) from error


_REMEDIES = {
    errno.ENOSPC: "; free some space and run the command again",
    errno.EACCES: "; check the owner and the permissions of the file or folder",
    errno.EROFS: "; choose a folder that you can write to",
}


def _problem(error: OSError) -> str:
    """Return what an error of the system says, and the remedy."""
    if error.errno in (errno.ENOTDIR, errno.EEXIST) and isinstance(error.filename, str):
        from mtkit.files import file_in_the_way

        if (part := file_in_the_way(Path(error.filename))) is not None:
            which = "this" if part == Path(error.filename) else part
            return f"{which} is a file, not a folder; choose another name"
    return f"{error.strerror}{_REMEDIES.get(error.errno or 0, '')}"


def _stopped(message: str, exit_code: int) -> typer.Exit:
    print(f"mtkit: {message}", file=sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:
        _forget_stdout()
    return typer.Exit(exit_code)


def _forget_stdout() -> None:
    """Discard the unwritten output of stdout, because Python would try to write it again at exit and print an error."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# plain help and plain tracebacks: loading rich would double the time of `mtkit --help`
app = typer.Typer(
    cls=_Commands, no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"mtkit {mtkit.__version__}")
        raise typer.Exit


@app.callback()
def _set_up(
    quiet: Annotated[bool, typer.Option("--quiet", help="Show warnings and errors only, no progress.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train, evaluate and use translation models. To try it: mtkit demo."""
    from mtkit.console import set_up_logging  # here: `mtkit --help` needs no progress bars

    set_up_logging(quiet)


_OBJECTS = 20_000  # new ones, after which Python looks for cycles; with its 700, that takes a tenth of a short command


def main() -> None:
    """Run the command line."""
    _open_closed_streams()
    gc.set_threshold(_OBJECTS)
    for stream in (sys.stdout, sys.stderr):  # UTF-8 and LF, whatever the locale says
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", newline="\n", errors=stream.errors)
    app(prog_name="mtkit")


class _Closed(io.TextIOBase):
    """Stand-in for a closed stdout, which fails only when the command writes its results."""

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, "closed, so the results are lost", "standard output")


def _open_closed_streams() -> None:
    """Replace a closed stdout or stderr (>&-), which Python sets to None; output to such a stderr is discarded."""
    if sys.stdout is None:
        Path(os.devnull).open("w")  # noqa: SIM115 - keeps its number, 1, from the next file that is opened
        sys.stdout = _Closed()
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115

"""The command line. Each command has a file of its own: it parses, calls the library and prints."""

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import mtkit
from mtkit.cli.alternatives import alternatives
from mtkit.cli.average import average
from mtkit.cli.calibrate import calibrate
from mtkit.cli.check import check
from mtkit.cli.compare import compare
from mtkit.cli.config import config
from mtkit.cli.demo import demo
from mtkit.cli.distill import distill
from mtkit.cli.doctor import doctor
from mtkit.cli.evaluate import evaluate
from mtkit.cli.export import export
from mtkit.cli.import_model import import_model
from mtkit.cli.inspect import inspect
from mtkit.cli.plan import plan
from mtkit.cli.score import score
from mtkit.cli.shortlist import shortlist
from mtkit.cli.synthetic import back_translate, forward_translate
from mtkit.cli.tokenize import detokenize, tokenize
from mtkit.cli.train import train
from mtkit.cli.train_tokenizer import train_tokenizer
from mtkit.cli.translate import translate
from mtkit.errors import MtkitError


class _Commands(TyperGroup):
    """Takes --quiet anywhere on the line, and turns expected errors into one message and an exit code."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        quiet = [arg for arg in args[:end] if arg == "--quiet"]
        return super().parse_args(ctx, quiet[:1] + [arg for arg in args[:end] if arg != "--quiet"] + args[end:])

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # here, where a full disk can still be reported
            return result
        except MtkitError as error:
            raise _stopped(str(error), error.exit_code) from error
        except KeyboardInterrupt as error:
            raise _stopped("interrupted", 130) from error
        except BrokenPipeError as error:  # whoever read our output has seen enough
            _forget_stdout()
            raise typer.Exit(1) from error
        except OSError as error:
            if error.errno is None:
                raise
            _forget_stdout()
            place = f"{error.filename}: " if error.filename is not None else ""
            raise _stopped(f"{place}{error.strerror}{_REMEDIES.get(error.errno, '')}", 1) from error


_REMEDIES = {
    errno.ENOSPC: "; free some space and run the command again",
    errno.EACCES: "; check who owns the file or folder",
    errno.EROFS: "; work in a folder that can be written to",
}


def _stopped(message: str, exit_code: int) -> typer.Exit:
    print(f"mtkit: {message}", file=sys.stderr)
    return typer.Exit(exit_code)


def _forget_stdout() -> None:
    """Drop what stdout has not written: the interpreter would try again when it ends, and complain."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# plain help and plain tracebacks: loading rich would double the time of `mtkit --help`
app = typer.Typer(
    cls=_Commands, no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
)
app.command(short_help="Train and try a small English-French translator.")(demo)
app.command()(config)
app.command(short_help="Train both tokenizers and report how they cut text.")(train_tokenizer)
app.command(short_help="Cut lines into the model's pieces.")(tokenize)
app.command(short_help="Put pieces together to text again.")(detokenize)
app.command(short_help="What training a config will mean: memory, steps, time, disk.")(plan)
app.command()(train)
app.command(short_help="Average the weights of checkpoints or models.")(average)
app.command(short_help="Train a student on its teachers' translations.")(distill)
app.command()(translate)
app.command(short_help="Make training pairs of target-language text.")(back_translate)
app.command(short_help="Make training pairs of source-language text.")(forward_translate)
app.command(short_help="Score a model, or given translations, on a test set.")(evaluate)
app.command(short_help="Compare systems: who is better, where and how surely.")(compare)
app.command(short_help="Check a translator's behaviour by a suite: numbers, negation, names.")(check)
app.command(short_help="Score given pairs by the model's own probabilities.")(score)
app.command(short_help="Other words for one place of a translation.")(alternatives)
app.command(short_help="Let a model tell how sure it is, learnt on dev.")(calibrate)
app.command(short_help="Learn which target tokens a source can need: faster decoding.")(shortlist)
app.command(short_help="Write a model for another system: CTranslate2, Marian, Hugging Face.")(export)
app.command("import", short_help="Make a model of another system an mtkit bundle.")(import_model)
app.add_typer(inspect, name="inspect", short_help="See inside a model: steps, attention, embeddings, errors.")
app.add_typer(doctor, name="doctor", short_help="Check what mtkit promises on a model or run of yours.")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"mtkit {mtkit.__version__}")
        raise typer.Exit


@app.callback()
def _set_up(
    quiet: Annotated[bool, typer.Option("--quiet", help="Warnings and errors only; no progress.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """From parallel text to a translator: train, translate, evaluate. Try it: mtkit demo."""
    from mtkit.console import set_up_logging  # here: `mtkit --help` needs no progress bars

    set_up_logging(quiet)


def main() -> None:
    """Run the command line of this process."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):  # UTF-8 and LF, whatever the locale says
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", newline="\n", errors=stream.errors)
    app(prog_name="mtkit")


def _open_closed_streams() -> None:
    """Let what is written to a closed stdout or stderr (>&-), which Python shows as None, go nowhere."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115

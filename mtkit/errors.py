"""Exceptions for wrong input and environments, each with the exit code of the command line."""

from collections.abc import Iterable, Mapping


def did_you_mean(word: str, known: Iterable[str], likeness: float = 0.6, shown: Mapping[str, str] | None = None) -> str:
    """Return "did you mean X?" with the known word that is most like this one; "" if none is.

    likeness: of the two, from 0 to 1, which is enough. shown: what the question has for each known word.
    """
    from difflib import get_close_matches  # here, because most commands need no suggestion

    near = get_close_matches(word, list(known), n=1, cutoff=likeness)
    return f"did you mean {shown[near[0]] if shown else near[0]}?" if near else ""


class MtkitError(Exception):
    """Wrong input or environment. The message gives the problem, the place and the remedy; commands show only that."""

    exit_code = 1


class UsageError(MtkitError):
    """The command's arguments cannot work, whatever the files contain."""

    exit_code = 2


class ConfigError(MtkitError):
    """A config file or an override is wrong; the message lists every problem with its line."""


class DataError(MtkitError):
    """A text file, a corpus or an encoded corpus is unusable."""


class UnnamedFiles(DataError):
    """A model to import lacks files that options of `mtkit import` can name."""


class BundleError(MtkitError):
    """A model folder is missing, incomplete, or differs from its manifest."""


class CheckpointError(MtkitError):
    """No checkpoint is readable, or one belongs to another run."""


class TrainingError(MtkitError):
    """Training cannot continue, for example because the loss is no longer finite."""

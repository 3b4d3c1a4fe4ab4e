"""Exceptions for wrong input and environments, each with the exit code of the command line."""


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


class BundleError(MtkitError):
    """A model folder is missing, incomplete, or differs from its manifest."""


class CheckpointError(MtkitError):
    """No checkpoint is readable, or one belongs to another run."""


class TrainingError(MtkitError):
    """Training cannot continue, for example because the loss is no longer finite."""

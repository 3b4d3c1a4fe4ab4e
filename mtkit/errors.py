"""What can go wrong for a user: one exception family, each kind with the exit code of the command line."""


class MtkitError(Exception):
    """Wrong input or environment; its text says where, what was found and what to do. Shown without a traceback."""

    exit_code = 1


class UsageError(MtkitError):
    """The command was called in a way that cannot work, whatever the files hold."""

    exit_code = 2


class ConfigError(MtkitError):
    """A config file or an override is wrong; the message lists every problem with its line."""


class DataError(MtkitError):
    """A text file, a corpus or an encoded corpus cannot be used."""


class BundleError(MtkitError):
    """A model folder is missing, incomplete, or not what its manifest says."""


class CheckpointError(MtkitError):
    """No checkpoint can be read, or one does not belong to this run."""


class TrainingError(MtkitError):
    """Training cannot go on, for example because the loss is no longer finite."""

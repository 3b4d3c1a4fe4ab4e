"""The version of mtkit, in a separate module, so that reading it imports nothing else."""

__version__ = "0.1.0"

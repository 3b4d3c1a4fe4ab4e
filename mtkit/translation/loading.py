"""Load a translator for a job: in this process, and in the others that share its work."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mtkit.bundle import BundleFiles, read_bundle
from mtkit.config.decoding import DecodeConfig
from mtkit.console import log
from mtkit.cores import usable_cores
from mtkit.errors import UsageError
from mtkit.files import sha256_file
from mtkit.jobs.executors import Executor, Processes
from mtkit.translation.translator import Translator


@dataclass(frozen=True)
class SharedTranslator:
    """A translator, and the executor that translates with copies of it."""

    translator: Translator  # in this process
    members: Sequence[BundleFiles]  # its bundles; the first one's config holds
    make: Callable[[], Translator]  # returns such a translator in whichever process works
    executor: Executor

    def identity(self) -> dict[str, Any]:
        """Return everything besides the text that translations depend on, as JSON, for a job to compare."""
        decode = self.translator.decode
        return {
            "models": [files.manifest["sha256"] for files in self.members],
            **{name: path and sha256_file(path) for name, path in decode.files.items()},
            "decode": decode.model_dump(mode="json", exclude={"threads", "workers"}),
            "engine": self.translator.engine.name,
            "arithmetic": self.translator.engine.arithmetic,
        }


def load_shared(
    members: Sequence[BundleFiles], executor: Executor, *, device: str = "auto", threads: int | None = None
) -> SharedTranslator:
    """Load the translator of bundles, an ensemble if several, with one engine; the executor has the processes.

    threads: CPU threads for all processes of this machine; default: the config's, else one for each core.
    Raises UsageError for a device that processes of one machine cannot share.
    """
    device = shared_device(device, executor)
    decode = members[0].config.decode
    threads = executor.threads(threads or decode.threads or usable_cores())
    load = _Load([files.folder for files in members], decode.model_copy(update={"workers": 1}), device, threads)
    translator = load.of(members)
    return SharedTranslator(translator, members, (lambda: translator) if executor.makes_here else load, executor)


def shared_device(device: str, executor: Executor) -> str:
    """Return the device of the processes of a job. Raises UsageError for one that those of a machine cannot share."""
    if not isinstance(executor, Processes):
        return device
    if device not in ("auto", "cpu"):
        raise UsageError(f"several processes (--workers) are for CPUs; with the device {device}, use one")
    return "cpu"


@dataclass(frozen=True)
class _Load:
    """Makes a translator in another process; logs nothing, because this process has already logged it."""

    folders: Sequence[Path]
    decode: DecodeConfig
    device: str
    threads: int

    def __call__(self) -> Translator:
        before, log.disabled = log.disabled, True
        try:
            return self.of([read_bundle(folder, self.decode.languages) for folder in self.folders])
        finally:
            log.disabled = before

    def of(self, members: Sequence[BundleFiles]) -> Translator:
        """Return the translator of these bundles."""
        first, *others = members
        config = first.config.model_copy(update={"decode": self.decode})
        translator = Translator.from_bundles(
            [replace(first, config=config), *others], device=self.device, threads=self.threads
        )
        if translator.engine.name == "native":  # the other engine loads no torch
            from mtkit.runtime import keep_freed_memory

            keep_freed_memory()
        return translator

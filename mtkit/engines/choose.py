"""Choose the engine that decodes: the native one in PyTorch, or CTranslate2 if the bundle holds its model."""

from collections.abc import Sequence

from mtkit.bundle import BundleFiles, bundle_file
from mtkit.config.decoding import DecodeConfig
from mtkit.console import log
from mtkit.cores import usable_cores
from mtkit.engines.ctranslate2 import CTranslate2Engine, unsupported
from mtkit.engines.parallel import NativeInWorker, ParallelEngine
from mtkit.errors import MtkitError
from mtkit.search.hypothesis import Engine

_MOST_PER_CORE = 4  # processes; more only take memory


def choose_engine(members: Sequence[BundleFiles], device: str, threads: int | None) -> Engine:
    """Return the engine that the first member's decode.engine names; `auto` takes CTranslate2 if it has all options.

    members: the models, more than one for an ensemble. threads: CPU threads; None leaves their number as it is.
    Raises MtkitError, with the reasons, if the config names CTranslate2 but needs what it lacks.
    """
    decode = members[0].config.decode
    if decode.engine == "native":
        return _native(members, decode, device, threads)
    reasons = _against_ctranslate2(members, decode, device)
    if not reasons:
        folder = bundle_file(members[0], "ctranslate2")
        if folder is not None:
            return CTranslate2Engine(folder, device=device, threads=threads)
        reasons = [f"{members[0].folder} holds no CTranslate2 model; `mtkit export --to ctranslate2` adds it"]
        if decode.engine == "auto":
            return _native(members, decode, device, threads)
    if decode.engine == "ctranslate2":
        raise MtkitError("decode.engine=ctranslate2: " + "; ".join(reasons))
    if any(key.startswith("ctranslate2/") for key in members[0].manifest["sha256"]):
        log.info(f"decoding with the native engine, not CTranslate2: {'; '.join(reasons)}")
    return _native(members, decode, device, threads)


def _native(members: Sequence[BundleFiles], decode: DecodeConfig, device: str, threads: int | None) -> Engine:
    """Return the engine in PyTorch, or decode.workers of them."""
    if decode.workers == 1:
        from mtkit.engines.native import native_engine  # loads torch, which CTranslate2 and workers do without

        return native_engine(members, decode, device, threads)
    if device not in ("auto", "cpu"):
        raise MtkitError(f"decode.workers={decode.workers} is for CPUs; with device={device} set it to 1")
    folders = tuple(files.folder for files in members)
    n_workers = min(decode.workers, _MOST_PER_CORE * usable_cores())  # a model from elsewhere may ask for any number
    each = max(1, (threads or usable_cores()) // n_workers)
    return ParallelEngine(NativeInWorker(folders, decode, each), n_workers)


def _against_ctranslate2(members: Sequence[BundleFiles], decode: DecodeConfig, device: str) -> list[str]:
    """Return the reasons why CTranslate2 cannot decode these models with these settings."""
    if len(members) > 1:
        return ["CTranslate2 does not support ensembles"]
    if not any(key.startswith("ctranslate2/") for key in members[0].manifest["sha256"]):
        return []
    try:
        import ctranslate2  # noqa: F401
    except ImportError:
        return ["ctranslate2 is not installed; pip install 'mtkit[fast]'"]

    return unsupported(decode, device)

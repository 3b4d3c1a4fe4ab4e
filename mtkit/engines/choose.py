"""Choose the engine that decodes: the native one in PyTorch, or CTranslate2 if the bundle contains its model."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from mtkit.bundle import BundleFiles, bundle_file
from mtkit.config.decoding import DecodeConfig
from mtkit.console import log
from mtkit.cores import usable_cores
from mtkit.engines.ctranslate2 import CTranslate2Engine, quantization_of, unsupported
from mtkit.engines.int8_scores import INT8_SCORES, Int8Loss, int8_loss
from mtkit.errors import MtkitError
from mtkit.search.hypothesis import Engine

_MOST_PER_CORE = 4  # processes; more only take memory


def choose_engine(
    members: Sequence[BundleFiles], device: str, threads: int | None, *, starts_soon: bool = False
) -> Engine:
    """Return the engine that the first member's decode.engine names.

    `auto` takes the fastest one of equal quality. On a CPU, the compiled loops of the native engine are faster than
    CTranslate2 with the same number format, by a tenth or more. Only in int8 without VNNI, where CTranslate2 is
    inexact, a beam search is just as fast in both. int8 is two to three times as fast as float32 with VNNI, and up to
    twice as fast without it. CTranslate2 comes first on a GPU, for models that the loops do not know, and where
    starting fast matters.

    members: the models, more than one for an ensemble. threads: CPU threads; None leaves their number as it is.
    starts_soon: the text is so short that startup takes most of the time, so prefer CTranslate2, which needs no torch.
    Raises MtkitError, with the reasons, if the config names CTranslate2 but needs what it lacks.
    """
    files, decode = members[0], members[0].config.decode
    if decode.engine == "native":
        return _native(members, decode, device, threads)
    reasons = _against_ctranslate2(members, decode, device)
    folder = None if reasons else bundle_file(files, "ctranslate2")
    if decode.engine == "ctranslate2":
        if folder is None:
            missing = f"{files.folder} contains no CTranslate2 model; `mtkit export --to ctranslate2` adds it"
            raise MtkitError("decode.engine=ctranslate2: " + ("; ".join(reasons) or missing))
        return CTranslate2Engine(folder, device=device, threads=threads, language_id=files.language_id)
    if reasons and _has_export(files):
        log.info(f"decoding with the native engine, not CTranslate2: {'; '.join(reasons)}")
    if folder is not None and starts_soon:
        return CTranslate2Engine(folder, device=device, threads=threads, language_id=files.language_id)
    precision = _precision(members, decode, device)
    if folder is not None and not _loops_are_faster(files, folder, precision, device):
        return CTranslate2Engine(folder, device=device, threads=threads, language_id=files.language_id)
    return _native(members, decode.model_copy(update={"precision": precision}), device, threads)


def loss_in_int8(members: Sequence[BundleFiles], device: str) -> Int8Loss | None:
    """Return what int8 loses on dev, if decode.precision=auto may choose it and it is faster here.

    None if not, or if the loss is unknown.
    """
    decode = members[0].config.decode
    if len(members) > 1 or (decode.engine, decode.precision) != ("auto", "auto"):
        return None
    loss = int8_loss(members[0])
    return loss if loss is not None and _has_loops(members[0], "int8", device) else None


def _precision(members: Sequence[BundleFiles], decode: DecodeConfig, device: str) -> str:
    """Return the precision of the native engine; `auto` means int8 if it is faster here and costs no quality."""
    if decode.precision != "auto":
        return decode.precision
    loss = loss_in_int8(members, device)
    if loss is None or not loss.is_negligible:
        return "fp32"
    log.info(f"decoding in int8, which is as good on dev ({INT8_SCORES}); decode.precision=fp32 is exact")
    return "int8"


def _loops_are_faster(files: BundleFiles, folder: Path, precision: str, device: str) -> bool:
    """Return whether the native engine is faster than the CTranslate2 model in the folder."""
    if precision == "fp32" and quantization_of(folder) != "float32":
        return False
    return _has_loops(files, precision, device)


def _has_loops(files: BundleFiles, precision: str, device: str) -> bool:
    """Return whether the native engine would decode with compiled loops."""
    if device not in ("auto", "cpu") or find_spec("numba") is None:
        return False
    from mtkit.model import ops  # these load torch, which CTranslate2 does without
    from mtkit.runtime import choose_device

    return choose_device(device).type == "cpu" and ops.has_faster_decoder(files.config.model, precision)


def _native(members: Sequence[BundleFiles], decode: DecodeConfig, device: str, threads: int | None) -> Engine:
    """Return the PyTorch engine, or an engine over decode.workers processes."""
    if decode.workers == 1:
        from mtkit.engines.native import native_engine  # loads torch, which CTranslate2 and workers do without

        return native_engine(members, decode, device, threads)
    if device not in ("auto", "cpu"):
        raise MtkitError(f"decode.workers={decode.workers} is for CPUs; with device={device} set it to 1")
    from mtkit.engines.parallel import NativeInWorker, ParallelEngine

    folders = tuple(files.folder for files in members)
    n_workers = min(decode.workers, _MOST_PER_CORE * usable_cores())  # a model from elsewhere may ask for any number
    each = max(1, (threads or usable_cores()) // n_workers)
    return ParallelEngine(NativeInWorker(folders, decode, each), n_workers)


def _against_ctranslate2(members: Sequence[BundleFiles], decode: DecodeConfig, device: str) -> list[str]:
    """Return the reasons why CTranslate2 cannot decode these models with these settings."""
    if len(members) > 1:
        return ["CTranslate2 does not support ensembles"]
    if not _has_export(members[0]):
        return []
    try:
        import ctranslate2  # noqa: F401
    except ImportError:
        return ["ctranslate2 is not installed; pip install 'mtkit[fast]'"]

    return unsupported(decode, device)


def _has_export(files: BundleFiles) -> bool:
    return any(key.startswith("ctranslate2/") for key in files.manifest["sha256"])

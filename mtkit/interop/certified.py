"""A bundle as a CTranslate2 model folder that stands only if its translations are those of the bundle."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from mtkit.bundle import BundleFiles, add_to_bundle, load_model
from mtkit.engines.ctranslate2 import ABOUT, CTranslate2Engine
from mtkit.engines.native import NativeEngine
from mtkit.errors import MtkitError
from mtkit.files import atomic_folder
from mtkit.interop.ctranslate2 import export_ctranslate2
from mtkit.interop.parity import Parity, Tolerance, measure_parity
from mtkit.interop.support import Quantization
from mtkit.translation.translator import Translator

FOLDER = "ctranslate2"  # the name in the bundle
CERTIFICATE = "parity.json"


def export_certified(
    files: BundleFiles,
    out: Path | None,
    quantization: Quantization,
    sources: Sequence[str],
    references: Sequence[str] | None,
    tolerance: Tolerance,
    threads: int,
    tick: Callable[[int], object] = lambda n_lines: None,
) -> Parity:
    """Write the model to out, or into the bundle, with its certificate, `parity.json`.

    sources, references: what both translate to be compared, see `measure_parity` (and for tick).
    Raises MtkitError, and leaves everything as it was, if the model cannot be exported or is past the tolerance.
    """
    if out is not None and out.exists() and not (out / ABOUT).is_file() and (not out.is_dir() or any(out.iterdir())):
        raise MtkitError(f"{out}: exists and is no earlier export; give --out a new folder")
    model = load_model(files)
    tokenizers = files.src_tokenizer, files.tgt_tokenizer
    src_pieces, tgt_pieces = (tokenizer.pieces(range(tokenizer.vocab_size)) for tokenizer in tokenizers)
    parities: list[Parity] = []

    def write(folder: Path) -> None:
        export_ctranslate2(model, src_pieces, tgt_pieces, folder, quantization)
        decode, language = files.config.decode, files.config.data.target_language
        native = Translator(NativeEngine([model]), *tokenizers, decode, tgt_lang=language)
        exported = Translator(CTranslate2Engine(folder, "cpu", threads), *tokenizers, decode, tgt_lang=language)
        parity = measure_parity(native, exported, sources, references, threads, tick)
        failures = parity.failures(tolerance)
        if failures:
            raise MtkitError(
                f"the {quantization} export is not written, for it is too far from the model: {'; '.join(failures)}"
            )
        (folder / CERTIFICATE).write_text(json.dumps(parity.as_json(), indent=2) + "\n", encoding="utf-8")
        parities.append(parity)

    if out is None:
        add_to_bundle(files.folder, FOLDER, write)
    else:
        with atomic_folder(out) as folder:
            write(folder)
    return parities[0]

"""Export a bundle to Marian, Bergamot or Hugging Face, import the result, and compare both models on real lines."""

import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from mtkit.bundle import BundleFiles, load_model, read_bundle
from mtkit.console import counted, log
from mtkit.engines.native import NativeEngine
from mtkit.errors import MtkitError
from mtkit.files import atomic_folder
from mtkit.interop import marian
from mtkit.interop.bergamot import folder as bergamot
from mtkit.interop.bergamot import page
from mtkit.interop.ctranslate2.export import CERTIFICATE, as_read
from mtkit.interop.huggingface import folder as huggingface
from mtkit.interop.imported import Languages
from mtkit.interop.parity import ComparedText, Comparison, Parity, Tolerance, measure_parity
from mtkit.interop.support import Target
from mtkit.interop.vocabulary import BANNED
from mtkit.model.transformer import Transformer
from mtkit.tokens.special_ids import UNK_ID
from mtkit.translation.translator import Translator

_MUCH_BLEU = 0.5  # points; two students of an hour lost 0.1


def export_bundle(
    files: BundleFiles,
    to: Target,
    out: Path,
    texts: Sequence[ComparedText],
    tolerance: Tolerance,
    threads: int,
    tick: Callable[[int], object] = lambda n_lines: None,
    engine: Path | None = None,
) -> Parity | None:
    """Write the model to a new folder, with its certificate if there is text to compare on.

    to: marian, bergamot, page or hf. texts, tick: see `measure_parity`. engine: for page, see `page.check_engine`.
    Raises MtkitError, and writes nothing, if the format cannot express the model or the export is beyond the tolerance.
    """
    with atomic_folder(out) as final, tempfile.TemporaryDirectory() as temporary:
        exported, again = Path(temporary, "exported"), Path(temporary, "again")
        if to in ("bergamot", "page"):
            model = exported if to == "bergamot" else exported / page.MODEL
            bergamot.export_bundle(files.folder, model, [line for text in texts for line in text.sources])
            if engine is not None:
                page.write_translator(exported, files, engine)
        else:
            (marian if to == "marian" else huggingface).export_bundle(files.folder, exported)
        parity = None
        if texts:
            parity = _parity(files, to, exported, again, texts, threads, tick)
            if failures := parity.failures(tolerance):
                raise MtkitError(
                    f"the export to {to} differs too much from the model and is not written: {'; '.join(failures)}"
                )
            if to in ("bergamot", "page"):
                _warn_of_lost_bleu(parity)
            (exported / CERTIFICATE).write_text(json.dumps(parity.as_json(), indent=2) + "\n", encoding="utf-8")
        shutil.copytree(exported, final, dirs_exist_ok=True)
    return parity


def _warn_of_lost_bleu(parity: Parity) -> None:
    """Warn if a browser, which searches greedily, loses several times as much BLEU as it usually does."""
    lost = -(parity.searches[0].bleu_change or 0.0)
    if lost > _MUCH_BLEU:
        log.warning(
            f"as browsers compute, BLEU is {lost:.2f} lower on {counted(parity.n_lines, 'line')}, where less than "
            f"{_MUCH_BLEU:g} is usual; compare on more text with `mtkit export --src FILE --ref FILE`, and train "
            "the model longer if the loss is the same there"
        )


def _parity(
    files: BundleFiles,
    to: Target,
    exported: Path,
    again: Path,
    texts: Sequence[ComparedText],
    threads: int,
    tick: Callable[[int], object],
) -> Parity:
    if to == "marian":
        marian.import_model(exported / "model.npz", again)
    elif to in ("bergamot", "page"):
        exported = exported if to == "bergamot" else exported / page.MODEL
        bergamot.import_model(exported, again)
    else:
        data = files.config.data
        # the names of languages matter only to a model of many; for others, they would be checked against the text
        named = Languages(data.src_lang, data.tgt_lang) if files.config.model.end_first else Languages()
        huggingface.import_model(exported, again, named)
    texts = [as_read(files, text) for text in texts]
    imported, of_browser = read_bundle(again), to in ("bergamot", "page")
    original, model = load_model(files), load_model(imported)
    if model.output.bias[UNK_ID] <= BANNED:  # Marian's engines never write it, but a tuned model may have learned to
        original.output.bias.data[UNK_ID] = BANNED
    if of_browser:
        model = bergamot.browser_model(exported, model)
    both = _translators(files, original, files, texts), _translators(imported, model, files, texts)
    comparisons = [Comparison(*one) for one in zip(texts, *both, strict=True)]
    parity = measure_parity(comparisons, threads, tick)
    return replace(parity, quantization="int8", computes_in="int8 as in browsers") if of_browser else parity


def _translators(
    bundle: BundleFiles, model: Transformer, settings: BundleFiles, texts: Sequence[ComparedText]
) -> list[Translator]:
    engine = NativeEngine([model])
    tokenizers = bundle.src_tokenizer.with_placeholders(()), bundle.tgt_tokenizer.with_placeholders(())
    decodes = (settings.config.decode.model_copy(update={"tag": text.tag}) for text in texts)
    return [Translator(engine, *tokenizers, decode, tgt_lang=settings.config.data.tgt_lang) for decode in decodes]

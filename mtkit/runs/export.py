"""Prepare a finished model for fast translation: export it, and measure it in 8-bit integers.

The export is for CTranslate2. mtkit uses 8-bit integers if they do not raise the loss on dev.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import torch

from mtkit.bundle import BundleFiles, bundle_file, load_model, read_bundle
from mtkit.config.schema import Config
from mtkit.console import log
from mtkit.data.corpus import evenly_spaced
from mtkit.data.dev_text import read_dev_text, shared
from mtkit.engines.ctranslate2 import unsupported
from mtkit.engines.int8_scores import EQUAL_LOSS, INT8_SCORES, save_int8_scores
from mtkit.engines.native import NativeEngine
from mtkit.errors import MtkitError
from mtkit.evaluation.metrics.scores import corpus_bleu
from mtkit.evaluation.metrics.settings import MetricSettings, tokenizer_for
from mtkit.interop.ctranslate2.export import export_bundle
from mtkit.interop.parity import DEFAULT_TOLERANCES, ComparedText, n_translated
from mtkit.interop.support import export_problems
from mtkit.model import ops
from mtkit.model.quantization import quantize
from mtkit.model.transformer import Transformer
from mtkit.pair_files.pairs import Pair
from mtkit.scoring.scoring import Scorer
from mtkit.training.preparation.parallel_text import translation_validators
from mtkit.training.preparation.prepared import Prepared
from mtkit.translation.translator import Translator

_PRECISIONS = "fp32", "int8"
_NEVER = -1e4  # nats: the log-probability of a token that the model cannot write is below this
_INT8_COST = 0.75  # of a validation: a translation in int8 takes a third of the time or more, a loss little
_BY_HAND = "`mtkit export --to ctranslate2` adds it"
_LINES = 200  # of all dev sets, to compare both engines on
# A single near tie that the engines decide differently is not an error; the probabilities must agree as in any export.
_TOLERANCE = replace(DEFAULT_TOLERANCES["float32"], token_agreement=0.99)


def wants_export(cfg: Config, device: torch.device) -> bool:
    """Return whether translation with this config uses an export: CTranslate2 is installed and supports all settings.

    A model trained on a GPU gets no export, because CTranslate2 may not run there: it depends on the CUDA libraries.
    """
    return (
        cfg.task == "translate"
        and device.type == "cpu"
        and cfg.decode.engine != "native"
        and find_spec("ctranslate2") is not None
        and not export_problems(cfg.model, "ctranslate2")
        and not unsupported(cfg.decode)
    )


def wants_int8(cfg: Config) -> bool:
    """Return whether the config lets mtkit choose the number format, and this CPU has compiled loops for 8-bit
    integers.
    """
    return (
        cfg.task == "translate"
        and (cfg.decode.engine, cfg.decode.precision) == ("auto", "auto")
        and ops.has_faster_decoder(cfg.model, "int8")
    )


def cost_in_validations(cfg: Config, device: torch.device, n_pairs: int) -> float:
    """Return how many validations on n_pairs take as long as the export and the scores in int8; 0 if there are none."""
    cost = 0.0
    if wants_export(cfg, device):
        # greedily and with the beam in both engines: the native beam search takes about half of the time
        cost += n_translated(cfg.decode, min(_LINES, n_pairs)) / 2 / n_pairs
    if device.type == "cpu" and wants_int8(cfg):
        cost += _INT8_COST
    return cost


def add_int8_scores(run: Prepared) -> None:
    """Add the BLEU on each dev set in fp32 and in int8 to the bundle, if the config can use it.

    This is done even if the budget is used up: it takes less than a validation, and without it the model would always
    translate more slowly, with VNNI at less than half of its speed. A run on a GPU with a budget skips it, because its
    CPU may be slow.
    """
    if not wants_int8(run.cfg):
        return
    if run.cfg.train.budget and run.updater.device.type != "cpu":
        log.info("skipped the scores in int8, because of the budget; --set decode.precision=int8 translates faster")
        return
    files = read_bundle(run.run_dir / "model")
    model, exact = load_model(files), files.manifest["training"]["dev_metrics_of"]
    validators = dict(zip(exact, translation_validators(run.validator), strict=True))
    bleu = {
        label: {"fp32": exact[label][0]["score"], "int8": validator.int8_bleu(model)}
        for label, validator in validators.items()
    }
    loss = {label: _losses(files, model, validator.tag, validator.pairs) for label, validator in validators.items()}
    _keep_int8_scores(files, bleu, loss)


def measure_int8(files: BundleFiles) -> None:
    """Add to the bundle of a model that no run has measured BLEU on each dev set in fp32 and in int8.

    Does nothing if the scores are there or the config has no use for them. Raises DataError if a dev set is missing.
    """
    cfg = files.config
    if not wants_int8(cfg) or bundle_file(files, INT8_SCORES) is not None:
        return
    log.info("int8: measuring loss and BLEU on dev in fp32 and in int8")
    model, settings = load_model(files), MetricSettings(tokenizer_for(cfg.data.tgt_lang))
    bleu: dict[str, dict[str, float]] = {}
    loss: dict[str, dict[str, float]] = {}
    for dev in read_dev_text(
        cfg.data.dev, sys.maxsize, config=files.folder / "config.yaml", remedy="restore its files"
    ):
        decode = cfg.decode.plain.model_copy(update={"tag": dev.tag})
        sources, references = [pair.src for pair in dev.pairs], [pair.tgt for pair in dev.pairs]
        bleu[dev.name], loss[dev.name] = {}, _losses(files, model, dev.tag, dev.pairs)
        for precision in _PRECISIONS:
            engine = NativeEngine([model], precision=precision)
            translations = Translator(engine, files.src_tokenizer, files.tgt_tokenizer, decode).translate(sources)
            bleu[dev.name][precision] = corpus_bleu(translations, references, settings)
    _keep_int8_scores(files, bleu, loss)


def _losses(files: BundleFiles, model: Transformer, tag: str | None, pairs: Sequence[Pair]) -> dict[str, float]:
    """Return the loss on the pairs by precision, in nats per target token, end included; if it can be measured."""
    tokenizers, texts = (files.src_tokenizer.tagged(tag), files.tgt_tokenizer), [(pair.src, pair.tgt) for pair in pairs]
    exact, rounded = (Scorer(quantize(model, precision), *tokenizers).score(texts) for precision in _PRECISIONS)
    # An imported model may give a token such as <unk> no probability. Then rounding says nothing about the pair.
    scored = [(one, other) for one, other in zip(exact, rounded, strict=True) if min(one.log_probs, default=0) > _NEVER]
    n_tokens = sum(one.n_tokens for one, _ in scored)
    return {
        precision: -math.fsum(one.log_prob for one in scores) / n_tokens
        for precision, scores in zip(_PRECISIONS, zip(*scored, strict=True), strict=False)
    }


def _keep_int8_scores(files: BundleFiles, bleu: dict[str, dict[str, float]], loss: dict[str, dict[str, float]]) -> None:
    loss = {label: score for label, score in loss.items() if score}
    save_int8_scores(files, bleu, loss)
    points = min(score["int8"] - score["fp32"] for score in bleu.values())
    nats = max((score["int8"] - score["fp32"] for score in loss.values()), default=math.nan)
    log.info(
        f"int8: the dev loss changes by {nats:+.4f} nats per token, BLEU by {points:+.2f}; up to +{EQUAL_LOSS:g} nats, "
        "mtkit uses it (engine auto)"
    )


def add_export(run: Prepared, seconds: float | None) -> None:
    """Add the export in float32 and its certificate to the bundle, if the config can use it.

    seconds: time that the budget is expected to leave for it; None: no budget. A failure causes only a warning.
    """
    if not wants_export(run.cfg, run.updater.device):
        return
    folder = run.run_dir / "model"
    if seconds is not None and seconds < 0:
        log.info(f"{folder}: no CTranslate2 model, because the budget is used up; {_BY_HAND}")
        return
    validators = translation_validators(run.validator)
    shares = shared(_LINES, [len(validator.pairs) for validator in validators])
    texts = [
        ComparedText.from_pairs(corpus.label, validator.tag, evenly_spaced(validator.pairs, share))
        for corpus, validator, share in zip(run.cfg.data.dev, validators, shares, strict=True)
    ]
    _export(folder, texts)


def add_fast_forms(folder: Path, device: torch.device) -> None:
    """Add the scores in int8 and the export to a bundle that no run wrote, as runs do with their own.

    device: that the model was trained on. Raises DataError if a dev set of its config is missing.
    """
    files = read_bundle(folder)
    if device.type == "cpu":
        measure_int8(files)
    if wants_export(files.config, device):
        config, remedy = folder / "config.yaml", "restore its files"
        dev = read_dev_text(files.config.data.dev, _LINES, config=config, remedy=remedy)
        _export(folder, [ComparedText.from_pairs(one.name, one.tag, one.pairs) for one in dev])


def sentences_for_fast_forms(cfg: Config, device: torch.device, n_pairs: int) -> int:
    """Return how many sentences a model translates in fp32 in the time of `add_fast_forms`.

    n_pairs: of all dev sets.
    """
    in_fp32 = n_pairs if device.type == "cpu" and wants_int8(cfg) else 0  # which a run has done before
    return in_fp32 + round(n_pairs * cost_in_validations(cfg, device, n_pairs))


def _export(folder: Path, texts: Sequence[ComparedText]) -> None:
    """Add the export in float32 to the bundle, or warn why it cannot be made."""
    try:
        export_bundle(read_bundle(folder), None, "float32", texts, _TOLERANCE, torch.get_num_threads())
    except (MtkitError, OSError, RuntimeError, ValueError, MemoryError) as error:
        reason = str(error) or "not enough memory"
        log.warning(f"{folder}: no CTranslate2 model, so mtkit translates with its own engine ({reason}); {_BY_HAND}")
        return
    log.info(f"CTranslate2 model: {folder / 'ctranslate2'}, which translates like the original (parity.json)")

"""Choose what a config leaves to the machine and to train.budget: pieces, batch size, updates, dev sentences."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from mtkit.config.durations import seconds_of
from mtkit.config.schema import Config
from mtkit.config.tokenizer import TokenizerConfig
from mtkit.console import counted
from mtkit.data.encoded import EncodedCorpus
from mtkit.data.mixture import Mixture
from mtkit.distributed.communicator import Communicator
from mtkit.model.networks import count_network_weights, new_network
from mtkit.runtime import choose_device, choose_precision, set_threads
from mtkit.training.preparation.auto_batch import available_memory, least_memory, with_batch_tokens
from mtkit.training.preparation.pace import fit_batches, updates_without_text
from mtkit.training.preparation.rule import (
    FEW_PIECES,
    batch_of_small_text,
    learning_values,
    should_have_few_pieces,
    sides_to_size,
)
from mtkit.training.preparation.run_tokenizers import has_large_alphabet, has_own_tokenizers, has_tokenizers
from mtkit.training.preparation.text import TrainingText
from mtkit.training.update.optimizer_step import Updater
from mtkit.training.validation.validator import Validator

_FOR_UPDATES = 0.8  # of what a budget has left once the text is encoded; the rest is for validations and the end
_FOR_VALIDATION = 0.005  # of a budget, for each validation
_LEAST_SENTENCES = 200  # of a dev set; BLEU on fewer says little
_TO_FORECAST = 0.005  # of a budget


def choose_learning(cfg: Config, reasons: dict[str, str]) -> Config:
    """Return cfg with train.schedule resolved, and with the keys that follow from its limits; reasons as below."""
    values, why = learning_values(cfg), "has a budget" if cfg.train.budget else "has no limit but train.patience"
    reasons |= {f"train.{key}": f"{value}, because the run {why}" for key, value in values.items()}
    return cfg.model_copy(update={"train": cfg.train.model_copy(update={"schedule": cfg.train.decay} | values)})


def choose_pieces(cfg: Config, run_dir: Path, since: float, processes: Communicator, reasons: dict[str, str]) -> Config:
    """Return cfg with fewer pieces than the default where its budget leaves few updates on a CPU; reasons as below.

    since: the time.monotonic() from which the budget counts.
    """
    sides, budget = sides_to_size(cfg), cfg.train.budget
    if not sides or budget is None or cfg.train.device not in ("auto", "cpu") or has_own_tokenizers(run_dir):
        return cfg
    usual, device = TokenizerConfig().vocab_size, processes.device(choose_device(cfg.train.device))
    sides = [side for side in sides if device.type == "cpu" and not has_large_alphabet(cfg, side)]
    if not sides or least_memory(count_network_weights(cfg, usual, usual)) > available_memory():
        return cfg
    fewer = cfg.model_copy(update={"tokenizer": cfg.tokenizer.with_sizes(dict.fromkeys(sides, FEW_PIECES))})
    has_few = True if has_tokenizers(fewer, run_dir) else False if has_tokenizers(cfg, run_dir) else None
    precision = choose_precision(cfg.train.precision, device)
    set_threads(cfg.train.threads or processes.threads)

    def trial(cfg: Config) -> Updater:
        return Updater(new_network(cfg, usual, usual).to(device), cfg.train, cfg.seed, precision)

    n_batches = max(1, cfg.train.accumulate // processes.size)
    n_updates = updates_without_text(trial, cfg, _training_s(budget, since), usual, n_batches)
    if not should_have_few_pieces(n_updates, has_few):
        return cfg
    layers = f"{cfg.model.n_encoder_layers} + {cfg.model.n_decoder_layers} layers"
    why = f"{FEW_PIECES}, because {usual} with {layers} would leave about {counted(n_updates, 'update')}"
    reasons |= {f"tokenizer.{side}.vocab_size": why for side in sides}
    return fewer


def choose_batches(
    cfg: Config,
    corpus: EncodedCorpus,
    mixtures: Sequence[Mixture],
    trial: Callable[[Config], Updater],
    since: float | None,
    n_processes: int,
    reasons: dict[str, str],
    text_times: float,
) -> tuple[Config, float]:
    """Return cfg with a number for train.batch_tokens and, with a budget, the measured seconds of an update, else 0.

    since: when the command began; None: an earlier start of the run has chosen its batches. reasons: receives each
    choice with its reason, by key. text_times: how many times as large the text of the run is.
    """
    is_open = cfg.train.init_from or cfg.train.has_no_limit
    if since is not None and is_open and cfg.train.batch_tokens is None and cfg.task == "translate":
        n_tokens = round(text_times * int(max(corpus.src_lengths.sum(), corpus.tgt_lengths.sum())))
        if size := batch_of_small_text(n_tokens):
            cfg = cfg.model_copy(update={"train": cfg.train.model_copy(update={"batch_tokens": size})})
            reasons["train.batch_tokens"] = f"{size}, because the text has {n_tokens:,} tokens"
    cfg = with_batch_tokens(cfg, corpus, trial)
    if cfg.train.budget and since is not None:
        training_s = _training_s(cfg.train.budget, since)
        cfg, n_updates = fit_batches(cfg, corpus, trial, training_s, n_processes, mixtures, reasons, text_times)
        return cfg, training_s / max(1, n_updates)
    number = {"batch_tokens": cfg.train.n_batch_tokens}
    return cfg.model_copy(update={"train": cfg.train.model_copy(update=number)}), 0.0


def _training_s(budget: str, since: float) -> float:
    """Return the seconds for updates in what is left of a budget."""
    return max(0.0, _FOR_UPDATES * (seconds_of(budget) - (time.monotonic() - since)))


def choose_validation(
    cfg: Config, text: TrainingText, updater: Updater, known_s: float, reasons: dict[str, str]
) -> tuple[Config, Validator, float]:
    """Return cfg with a number for train.validate_sentences if there is a budget, its validator, and its seconds.

    known_s: the seconds, if they have been measured. reasons: as in choose_batches.
    """
    validator = text.validator(cfg, updater.precision)
    if cfg.train.budget is None:
        return cfg, validator, 0.0
    if known_s and cfg.train.validate_sentences is not None:
        return cfg, validator, known_s
    budget_s, model = seconds_of(cfg.train.budget), updater.weights.whole(updater.eval_model)
    cost = updater.processes.on_main(lambda: text.forecast(validator, model, _TO_FORECAST * budget_s))
    if cfg.train.validate_sentences is None:
        n_sentences = max(_LEAST_SENTENCES * len(cfg.data.dev), cost.most_sentences(_FOR_VALIDATION * budget_s))
        number = {"validate_sentences": min(n_sentences, validator.n_sentences)}
        cfg = cfg.model_copy(update={"train": cfg.train.model_copy(update=number)})
        validator = text.validator(cfg, updater.precision)
        why = f"they take {_FOR_VALIDATION:.1%} of the budget, or {_LEAST_SENTENCES} of each dev set"
        if validator.n_sentences < n_sentences:
            why = "data.dev has no more"
        reasons["train.validate_sentences"] = f"{validator.n_sentences}, because {why}"
    return cfg, validator, cost.seconds(validator.n_sentences)

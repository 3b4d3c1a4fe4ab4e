"""Prepare a run: tokenizers, encoded text, a model with its optimizer, and a stream of batches."""

import time
from collections.abc import Sequence
from pathlib import Path

import torch

from mtkit.alignment.lexicon import AlignmentLexicon, start_from
from mtkit.config.data import CorpusFiles
from mtkit.config.schema import Config
from mtkit.console import counted, log
from mtkit.data.corpus import first_missing
from mtkit.data.encoding import fingerprint_of
from mtkit.data.feed import BatchStream
from mtkit.data.mixture import Mixture, mixtures_of, require_scores
from mtkit.data.overlap import (
    OF_LABELLED_PAIRS,
    OF_LABELLED_TEXTS,
    OF_TRANSLATIONS,
    Overlap,
    overlap_file,
    overlaps_of,
)
from mtkit.distributed.communicator import ALONE, Communicator
from mtkit.errors import TrainingError
from mtkit.evaluation.behaviour.suite import load_suite
from mtkit.model.network import Network
from mtkit.model.networks import count_network_weights, new_network
from mtkit.model.transformer import Transformer
from mtkit.runtime import (
    Precision,
    bound_kernel_stores,
    choose_device,
    choose_precision,
    keep_freed_memory,
    log_missing_loops,
    log_missing_numba,
    require_compiler,
    set_threads,
    warn_of_slow_precision,
)
from mtkit.tokens.tokenizer import Tokenizer
from mtkit.training.preparation.auto_batch import available_memory, least_memory
from mtkit.training.preparation.choices import choose_batches, choose_learning, choose_pieces, choose_validation
from mtkit.training.preparation.labelled_text import label_encodings, prepare_labelled
from mtkit.training.preparation.orientation import check_file_names
from mtkit.training.preparation.parallel_text import pair_encodings, prepare_pairs, read_dev
from mtkit.training.preparation.prepared import Prepared, with_scores
from mtkit.training.preparation.run_tokenizers import check_tags, lowered_vocabularies
from mtkit.training.preparation.text import TrainingText
from mtkit.training.preparation.warm_start import check_freeze, check_tags_of_start, freeze, load_start
from mtkit.training.update.checkpoint import Checkpoints
from mtkit.training.update.optimizer_step import Updater
from mtkit.training.validation.dev_sets import of_all_sets


def prepare_text(cfg: Config, run_dir: Path, *, is_verified: bool) -> TrainingText:
    """Return the text of the config's task. is_verified: another process has just verified the encoded text."""
    if cfg.task == "classify":
        return prepare_labelled(cfg, run_dir, is_verified=is_verified)
    return prepare_pairs(cfg, run_dir, is_verified=is_verified)


def text_fingerprints(cfg: Config, tokenizers: tuple[Tokenizer, Tokenizer]) -> tuple[str, str]:
    """Return the fingerprints of data.train and data.dev that a run with these tokenizers records, without encoding."""
    of_train, of_dev = (label_encodings if cfg.task == "classify" else pair_encodings)(cfg, tokenizers)
    train = with_scores(fingerprint_of(cfg.data.train, of_train), cfg.data)
    return train, of_all_sets([fingerprint_of([corpus], of_dev) for corpus in cfg.data.dev])


def check_early(cfg: Config, processes: Communicator = ALONE) -> None:
    """Raise MtkitError for mistakes that `prepare` would report; call this before hours of other work."""
    _check_settings(cfg, processes)
    choose_precision(cfg.train.precision, choose_device(cfg.train.device))
    if cfg.train.init_from is None:
        check_tags(cfg)
    else:
        check_tags_of_start(cfg)
    require_scores(cfg.data)
    for corpus in cfg.data.dev:
        read_dev(corpus)
    if cfg.train.suite is not None:
        load_suite(cfg.train.suite)


def _check_settings(cfg: Config, processes: Communicator) -> None:
    """Raise MtkitError for settings that this machine or this run cannot have."""
    processes.check(cfg.train)
    check_freeze(cfg)
    if cfg.train.compile:
        require_compiler()
    check_file_names(cfg)


def prepare(
    cfg: Config,
    run_dir: Path,
    checkpoints: Checkpoints,
    processes: Communicator = ALONE,
    since: float | None = None,
    validation_s: float = 0.0,
    text_times: float = 1.0,
) -> Prepared:
    """Prepare a run, with the weights of train.init_from or random ones from cfg.seed.

    With guided alignment, the random weights are changed to begin with the lexicon's translations of words.
    since: the time.monotonic() from which train.budget counts; default: now.
    validation_s: seconds of a validation as earlier starts of the run have measured them; 0: unknown.
    text_times: how many times as large the text of the planned run is, if cfg has only a part of it.
    Raises MtkitError if the text, the settings or the machine make the run impossible.
    """
    since = time.monotonic() if since is None else since
    _check_settings(cfg, processes)
    device, precision, n_threads = _set_up_machine(cfg, processes)
    reasons: dict[str, str] = {}
    if not checkpoints.exist():
        cfg = choose_learning(cfg, reasons)
        learning = cfg
        cfg = processes.on_main(lambda: choose_pieces(learning, run_dir, since, processes, reasons))
    text, overlaps, text_s = ready_text(cfg, run_dir, processes)
    if not checkpoints.exist():
        for key, what in lowered_vocabularies(cfg, run_dir, text.tokenizers).items():
            reasons[key] = "; ".join(filter(None, [what, reasons.get(key)]))
    mixtures = mixtures_of(cfg.data, text.train)
    if device.type == "cpu":
        keep_freed_memory()  # only now, so that memory used for the text is returned to the system
    sizes = text.tokenizers[0].vocab_size, text.tokenizers[1].vocab_size
    if device.type == "cpu" and processes.size == 1:
        _require_memory(cfg, count_network_weights(cfg, *sizes))

    learnt = text.alignment_lexicon if cfg.train.guided_alignment else None
    lexicon = None if learnt is None else learnt.to(device)

    def trial(cfg: Config) -> Updater:
        return Updater(new_network(cfg, *sizes).to(device), cfg.train, cfg.seed, precision, lexicon=lexicon)

    begun = None if checkpoints.exist() else since
    cfg, update_s = processes.on_main(
        lambda: choose_batches(cfg, text.train, mixtures, trial, begun, processes.size, reasons, text_times)
    )
    model, start = _new_model(cfg, sizes, learnt, checkpoints)
    feed = _make_feed(cfg, text, mixtures, processes)
    updater = Updater(model.to(device), cfg.train, cfg.seed, precision, processes, lexicon)
    cfg, validator, validation_s = choose_validation(cfg, text, updater, validation_s, reasons)
    run = Prepared(
        cfg,
        run_dir,
        text,
        feed,
        mixtures,
        [feed.epoch_size(stage) for stage in range(len(mixtures))],
        overlaps,
        validator,
        updater,
        checkpoints,
        update_s,
        validation_s,
        text_s,
        reasons,
        start,
    )
    for key, what in reasons.items():
        log.info(f"{key}: {what}")
    _log_model(run, n_threads)
    _log_data(run)
    return run


def ready_text(
    cfg: Config, run_dir: Path, processes: Communicator = ALONE
) -> tuple[TrainingText, dict[str, Overlap], float]:
    """Return the text, its overlap with dev and test, and the seconds that this took; 0 if the run already had it."""
    began, was_ready = time.monotonic(), overlap_file(run_dir).exists()  # the last file that preparation writes
    with processes.main_first():
        text = prepare_text(cfg, run_dir, is_verified=not processes.is_first_here)
    overlaps = _find_overlaps(cfg, run_dir) if processes.is_main else {}  # which reports them
    return text, overlaps, 0.0 if was_ready else time.monotonic() - began


def _set_up_machine(cfg: Config, processes: Communicator) -> tuple[torch.device, Precision, int]:
    """Prepare torch for the run, and return its device, its precision and its number of threads on a CPU."""
    device = processes.device(choose_device(cfg.train.device))
    precision = choose_precision(cfg.train.precision, device)
    warn_of_slow_precision(precision, device)
    n_threads = set_threads(cfg.train.threads or processes.threads)
    bound_kernel_stores(n_threads)
    return device, precision, n_threads


def _new_model(
    cfg: Config, sizes: tuple[int, int], lexicon: AlignmentLexicon | None, checkpoints: Checkpoints
) -> tuple[Network, list[str]]:
    """Return the model with its first weights, and the checksums of the model in train.init_from if it has them.

    sizes: of the two vocabularies. lexicon: of the training text, whose translations of words the model begins with.
    """
    torch.manual_seed(cfg.seed)
    model, start = new_network(cfg, *sizes), []
    if cfg.train.init_from is not None:
        if not checkpoints.exist():
            start = load_start(cfg.train.init_from, model, cfg.data.labels, cfg.data.tgt_lang)
    elif lexicon is not None and isinstance(model, Transformer):
        start_from(lexicon, model)
    freeze(model, cfg.train.freeze)
    return model, start


def _require_memory(cfg: Config, n_weights: int) -> None:
    """Raise TrainingError if the model cannot fit into memory; otherwise the system might kill the process."""
    needed, free = least_memory(n_weights), available_memory()
    if needed > free:
        raise TrainingError(
            f"the model has {n_weights:,} weights, which take {needed / 2**30:,.1f} GiB in training, but "
            f"{free / 2**30:,.1f} GiB are free; lower model.d_model={cfg.model.d_model}, model.d_ff={cfg.model.d_ff}, "
            "the number of layers or tokenizer.*.vocab_size"
        )


def _find_overlaps(cfg: Config, run_dir: Path) -> dict[str, Overlap]:
    """Count the pairs of each dev set, and of test if it exists, that are also in the training text; log examples."""
    data = cfg.data
    held_out: dict[str, CorpusFiles] = {corpus.label: corpus for corpus in data.dev}
    if data.test is not None and first_missing([data.test]) is None:
        held_out["test"] = data.test
    overlaps = overlaps_of(held_out, data.train, overlap_file(run_dir))
    of_labelled = OF_LABELLED_PAIRS if data.pairs else OF_LABELLED_TEXTS
    for name, overlap in overlaps.items():
        overlap.report(f"data.{name}", of_labelled if cfg.task == "classify" else OF_TRANSLATIONS)
    return overlaps


def _make_feed(cfg: Config, text: TrainingText, mixtures: Sequence[Mixture], processes: Communicator) -> BatchStream:
    """Return this process's share of the batches of the training text."""
    return BatchStream(
        text.train,
        batch_tokens=cfg.train.n_batch_tokens,
        accumulate=cfg.train.accumulate,
        seed=cfg.seed,
        mixtures=mixtures,
        sampler=text.sampler(cfg),
        part=(processes.rank, processes.size),
    )


def _log_model(run: Prepared, n_threads: int) -> None:
    device, train = run.updater.device, run.cfg.train
    where = f"{device}, {counted(n_threads, 'thread')}" if device.type == "cpu" else str(device)
    n_weights = sum(parameter.numel() for parameter in run.updater.model.parameters())
    log.info(f"model: {n_weights / 1e6:.1f} million weights; {run.updater.precision} on {where}")
    if train.r_drop and not any(value for key, value in run.cfg.model if key.endswith("_dropout")):
        log.warning(
            f"train.r_drop={train.r_drop} has no effect without dropout, except that it doubles the time; remove it, "
            "or set a dropout"
        )
    log_missing_loops(run.cfg.model.without_loops)
    if device.type == "cpu":
        log_missing_numba("each update about a tenth faster")


def _log_data(run: Prepared) -> None:
    epoch, validator = run.epoch_size, run.validator
    about = "" if epoch.is_exact else "about "
    log.info(
        f"data: {counted(run.corpus.n_pairs, run.corpus.words.one)}; {about}{counted(epoch.n_batches, 'batch')} an "
        f"epoch, {epoch.padding_share:.1%} of them padding; {validator.describe()}"
    )

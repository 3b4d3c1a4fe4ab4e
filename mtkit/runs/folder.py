"""Check and write the config in a run's folder: a run can continue only with the settings that shape its result."""

from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mtkit.bundle import find_model, read_bundle
from mtkit.config.durations import seconds_of
from mtkit.config.reading.differences import differences
from mtkit.config.reading.loading import dump_config, load_written_config
from mtkit.config.schema import Config
from mtkit.config.tokenizer import TokenizerConfig
from mtkit.config.training import TrainConfig
from mtkit.console import counted, log
from mtkit.errors import BundleError, ConfigError
from mtkit.evaluation.metrics.settings import tokenizer_for
from mtkit.files import write_text
from mtkit.languages import SIDES
from mtkit.training.preparation.labelled_text import with_labels
from mtkit.training.preparation.rule import KEYS_OF_MODEL, KEYS_OF_TRAIN

# Keys (or whole sections) that may change during a run: they say when to stop, when to validate and where to compute.
# The checkpoint's fingerprints compare the content of the corpora, so files may move; `shaping_differences` compares
# their weights and tags.
_FREE = (
    "run_dir",
    "data.src_lang",
    "data.tgt_lang",
    "data.train",
    "data.dev",
    "data.test",
    "clean",
    "decode",
    *("train." + key for key in ("max_steps", "max_epochs", "max_minutes", "budget", "patience", "log_every")),
    *("train." + key for key in ("validate_every", "validate_sentences", "average_best", "average_last")),
    *("train." + key for key in ("suite", "threads", "device", "shard_above_gib")),
)

_MUCH_LONGER = 2  # times the budget before

_CHOSEN = "# Chosen by mtkit for this run:\n"


def check_run(cfg: Config, *, started: bool) -> None:
    """Check that cfg can start the run in cfg.run_dir, or continue it; started: the run has checkpoints.

    Raises ConfigError if the run has other settings that shape its result, or a finished model without checkpoints.
    """
    assert cfg.run_dir is not None
    model = cfg.run_dir / "model"
    if not started and (model / "manifest.json").exists():
        raise ConfigError(
            f"{cfg.run_dir}: this run has finished, and cannot continue without checkpoints/; use its {model}, "
            "choose another run_dir, or remove model/ to train from the beginning"
        )
    path = cfg.run_dir / "config.yaml"
    changes = shaping_differences(load_written_config(path), cfg) if started and path.exists() else []
    if changes:
        listed = "\n".join(f"  {key}: {old} there, {new} now" for key, old, new in changes)
        raise ConfigError(
            f"{cfg.run_dir} holds a run with other settings:\n{listed}\n"
            "start a new run (another run_dir), or restore these keys to continue that one"
        )


def check_start(cfg: Config, checksums: list[str]) -> None:
    """Raise ConfigError if train.init_from holds another model than the one with these checksums.

    A model that is gone does not matter, because the run has its own weights. checksums: as the run recorded them;
    empty: unknown.
    """
    start = cfg.train.init_from
    if not start or not checksums:
        return
    try:
        is_other = _shaping_checksums(start) != checksums
    except BundleError:
        return
    if is_other:
        raise ConfigError(
            f"train.init_from={start}: another model than the one that {cfg.run_dir} started from; choose another "
            "run_dir to start from this model, or move it away to continue the run"
        )


def with_its_choices(cfg: Config, *, started: bool) -> Config:
    """Return cfg with the values that a started run chose for keys that cfg sets to auto or leaves out.

    Raises ConfigError if the limits of cfg do not fit these values, for example if the learning rate depends on the
    run's end, and cfg sets no end.
    """
    path = cfg.run_dir and cfg.run_dir / "config.yaml"
    run = load_written_config(path) if started and path and path.exists() else None
    theirs = run.train if run else None
    chosen: dict[str, Any] = {}
    if cfg.train.schedule == "auto" and theirs:  # a new run chooses when it is prepared
        chosen["schedule"] = theirs.decay
    if theirs:
        if not isinstance(cfg.train.batch_tokens, int):
            chosen["batch_tokens"] = theirs.batch_tokens
        if cfg.train.budget and cfg.train.validate_sentences is None:
            chosen["validate_sentences"] = theirs.validate_sentences
        written = cfg.train.model_fields_set
        for key in KEYS_OF_TRAIN:  # whose defaults depend on the limits, which may change
            if key not in written and not (key == "average_last" and "average_best" in written):
                chosen[key] = getattr(theirs, key)
    if cfg.task == "classify":
        data = {
            key: getattr(run.data, key) for key in ("labels", "pairs") if run and key not in cfg.data.model_fields_set
        }
        cfg = with_labels(cfg.model_copy(update={"data": cfg.data.model_copy(update=data)}))
    of_model = {key: getattr(run.model, key) for key in KEYS_OF_MODEL if run and key not in cfg.model.model_fields_set}
    tokenizers: dict[str, TokenizerConfig] = {}
    for side in SIDES:
        ours: TokenizerConfig = getattr(cfg.tokenizer, side)
        if run and "vocab_size" not in ours.model_fields_set:
            tokenizers[side] = ours.model_copy(update={"vocab_size": getattr(run.tokenizer, side).vocab_size})
    augment = run.augment if run and "augment" not in cfg.model_fields_set else cfg.augment
    train = cfg.train.model_copy(update=chosen)
    if started:
        _check_limits(train, cfg.run_dir)
        _warn_of_longer_budget(train, theirs, cfg.run_dir)
    return cfg.model_copy(
        update={
            "train": train,
            "model": cfg.model.model_copy(update=of_model),
            "tokenizer": cfg.tokenizer.model_copy(update=tokenizers),
            "augment": augment,
        }
    )


def _check_limits(train: TrainConfig, run_dir: Path | None) -> None:
    """Raise ConfigError if a run's limits do not fit the values that it began with: no config.yaml could have both."""
    try:
        TrainConfig.model_validate(train.model_dump())
    except ValidationError as error:
        problem = str(error.errors()[0]["ctx"]["error"])
        raise ConfigError(
            f"{run_dir}: the limits in train do not fit the values that this run began with: {problem}; choose other "
            "limits, or another run_dir to start a new run"
        ) from error


def write_config(cfg: Config, reasons: Mapping[str, str], *, resumed: bool = False) -> None:
    """Write cfg, including defaults, to the run's config.yaml.

    The file begins with the values that mtkit chose, and their reasons; a resumed run keeps those of earlier starts.
    """
    assert cfg.run_dir is not None
    path = cfg.run_dir / "config.yaml"
    choices = {**(_choices_in(path) if resumed and path.exists() else {}), **reasons}
    head = [_CHOSEN, *(f"#   {key}: {what}\n" for key, what in choices.items())] if choices else []
    write_text(path, "".join(head) + dump_config(cfg))


def _warn_of_longer_budget(train: TrainConfig, theirs: TrainConfig | None, run_dir: Path | None) -> None:
    """Warn if a run gets much more time than that for which it has chosen its model."""
    if theirs is None or run_dir is None or not train.budget or not theirs.budget:
        return
    kept = [
        key
        for key, what in _choices_in(run_dir / "config.yaml").items()
        if key.startswith(("model.", "tokenizer.")) and "because" in what
    ]
    if kept and seconds_of(train.budget) >= _MUCH_LONGER * seconds_of(theirs.budget):
        log.warning(
            f"{run_dir}: the run keeps what mtkit chose for a shorter train.budget: {', '.join(kept)}; a new run, in "
            f"another run_dir, can choose others for {train.budget}"
        )


def chosen_keys(run_dir: Path) -> list[str]:
    """Return the keys that mtkit chose in any start of the run, according to the head of its config.yaml."""
    return list(_choices_in(run_dir / "config.yaml"))


def _choices_in(path: Path) -> dict[str, str]:
    lines = takewhile(lambda line: line.startswith("#"), path.read_text("utf-8").splitlines())
    choices = (line.removeprefix("#   ").partition(": ") for line in lines if line.startswith("#   "))
    return {key: what for key, _, what in choices}


def shaping_differences(old: Config, new: Config) -> list[tuple[str, Any, Any]]:
    """Return the keys that shape the result and differ, such as "model.d_model", with both values."""
    changed = differences(old.model_dump(mode="json"), new.model_dump(mode="json"))
    of_corpora: list[tuple[str, Any, Any]] = []
    for key in ("weight", "tag", "min_score"):
        there, now = ([getattr(corpus, key) for corpus in cfg.data.train] for cfg in (old, new))
        of_corpora += [(f"data.train[].{key}", there, now)] if there != now else []
    there, now = ([corpus.tag for corpus in cfg.data.dev] for cfg in (old, new))
    if len(there) != len(now):
        of_corpora.append(("data.dev", counted(len(there), "dev set"), counted(len(now), "dev set")))
    elif there != now:
        then, today = (tags[0] if len(tags) == 1 else tags for tags in (there, now))
        of_corpora.append(("data.dev.tag", then, today))
    start, new_start = old.train.init_from, new.train.init_from
    if start and new_start and start != new_start and _are_one_model(start, new_start):
        changed = [difference for difference in changed if difference[0] != "train.init_from"]
    tokenize_then, tokenize_now = (tokenizer_for(cfg.data.tgt_lang) for cfg in (old, new))
    key = "data.tgt_lang (or the name of dev's file), which sets the tokenization of BLEU"
    bleu = [(key, tokenize_then, tokenize_now)] if tokenize_then != tokenize_now else []
    return [*of_corpora, *bleu, *(difference for difference in changed if not _is_free(difference[0]))]


def _are_one_model(then: Path, now: Path) -> bool:
    """Return whether both folders hold the same model; also true, with a warning, if the first no longer exists."""
    try:
        second = _shaping_checksums(now)
        if then.exists():
            return _shaping_checksums(then) == second
    except BundleError:
        return False
    log.warning(
        f"train.init_from: the run started from {then}, which no longer exists; if {now} is another model, the run's "
        "record of its start is wrong"
    )
    return True


def _shaping_checksums(folder: Path) -> list[str]:
    return read_bundle(find_model(folder), task="any").shaping_checksums


def _is_free(key: str) -> bool:
    return any(key == free or key.startswith(free + ".") for free in _FREE)

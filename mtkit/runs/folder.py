"""The folder of a run and its config: a run that exists goes on only with the settings that shaped it."""

from pathlib import Path
from typing import Any

from mtkit.bundle import SHAPING_FILES, find_model, read_bundle
from mtkit.config.differences import differences
from mtkit.config.loading import dump_config, load_config
from mtkit.config.schema import Config
from mtkit.console import log
from mtkit.errors import BundleError, ConfigError
from mtkit.evaluation.metrics.settings import tokenizer_for
from mtkit.files import write_text

# Keys (or whole sections) that may change while a run is under way: they say when to stop, when to look and where to
# compute. The corpora are compared by content, in the checkpoint's fingerprints, so that files may move; their weights
# and tags are compared by themselves.
_FREE = (
    "run_dir",
    "data.src_lang",
    "data.tgt_lang",
    "data.train",
    "data.dev",
    "data.test",
    "decode",
    *("train." + key for key in ("max_steps", "max_epochs", "max_minutes", "budget", "patience", "log_every")),
    *("train." + key for key in ("validate_every", "validate_sentences", "average_best", "average_last")),
    *("train." + key for key in ("suite", "threads", "device", "shard_above_gib")),
)


def check_run(cfg: Config, *, started: bool) -> None:
    """See whether cfg can start the run in cfg.run_dir, or go on with it; started: it has checkpoints.

    Raises ConfigError if they were made with other settings that shape the result, or if the run has a finished model
    and no checkpoints any more.
    """
    assert cfg.run_dir is not None
    model = cfg.run_dir / "model"
    if not started and (model / "manifest.json").exists():
        raise ConfigError(
            f"{cfg.run_dir}: this run has finished, and without checkpoints/ it cannot go on; translate with {model}, "
            "or choose another run_dir, or remove model/ to train from the beginning"
        )
    path = cfg.run_dir / "config.yaml"
    changes = shaping_differences(load_config(path), cfg) if started and path.exists() else []
    if changes:
        listed = "\n".join(f"  {key}: {old} there, {new} now" for key, old, new in changes)
        raise ConfigError(
            f"{cfg.run_dir} holds a run with other settings:\n{listed}\n"
            "start a new run (another run_dir), or restore these keys to go on with that one"
        )


def with_its_choices(cfg: Config, *, started: bool) -> Config:
    """cfg as its run keeps it: where it says auto, what was chosen when the run began, if it has begun.

    Raises ConfigError if the run's learning rate needs to know the end, and cfg does not say when that is.
    """
    path = cfg.run_dir and cfg.run_dir / "config.yaml"
    theirs = load_config(path).train if started and path and path.exists() else None
    chosen: dict[str, Any] = {}
    if cfg.train.schedule == "auto":
        chosen["schedule"] = theirs.decay if theirs else cfg.train.decay
        limits = (cfg.train.max_steps, cfg.train.max_epochs, cfg.train.max_minutes, cfg.train.budget)
        if chosen["schedule"] == "cosine" and not any(limits):
            raise ConfigError(
                f"{cfg.run_dir}: this run's learning rate falls along a cosine to the end of the run (train.schedule): "
                "set max_steps, max_epochs, max_minutes or budget"
            )
    if cfg.train.batch_tokens == "auto" and theirs:
        chosen["batch_tokens"] = theirs.batch_tokens
    return cfg.model_copy(update={"train": cfg.train.model_copy(update=chosen)})


def write_config(cfg: Config) -> None:
    """Write cfg, with every default, to the run's config.yaml."""
    assert cfg.run_dir is not None
    write_text(cfg.run_dir / "config.yaml", dump_config(cfg))


def shaping_differences(old: Config, new: Config) -> list[tuple[str, Any, Any]]:
    """The result-shaping keys, such as "model.d_model", whose values differ, with both values."""
    found = differences(old.model_dump(mode="json"), new.model_dump(mode="json"))
    of_corpora: list[tuple[str, Any, Any]] = []
    for key in ("weight", "tag"):
        there, now = ([getattr(corpus, key) for corpus in cfg.data.train] for cfg in (old, new))
        of_corpora += [(f"data.train[].{key}", there, now)] if there != now else []
    if old.data.dev.tag != new.data.dev.tag:
        of_corpora.append(("data.dev.tag", old.data.dev.tag, new.data.dev.tag))
    start, new_start = old.train.init_from, new.train.init_from
    if start and new_start and start != new_start and _are_one_model(start, new_start):
        found = [difference for difference in found if difference[0] != "train.init_from"]
    then_cut, now_cut = (tokenizer_for(cfg.data.target_language) for cfg in (old, new))
    key = "data.tgt_lang (or the name of dev's file), by which BLEU cuts text"
    bleu = [(key, then_cut, now_cut)] if then_cut != now_cut else []
    return [*of_corpora, *bleu, *(difference for difference in found if not _is_free(difference[0]))]


def _are_one_model(then: Path, now: Path) -> bool:
    """Whether a run may have begun with either: they hold the same, or the first is no longer there to be compared."""
    try:
        second = _shaping_checksums(now)
        if then.exists():
            return _shaping_checksums(then) == second
    except BundleError:
        return False
    log.warning(
        f"train.init_from: the run began with {then}, which is not there any more; if {now} is another model, what the "
        "run says of its start is wrong"
    )
    return True


def _shaping_checksums(folder: Path) -> list[str]:
    sha256 = read_bundle(find_model(folder)).manifest["sha256"]
    return [sha256[name] for name in SHAPING_FILES]


def _is_free(key: str) -> bool:
    return any(key == free or key.startswith(free + ".") for free in _FREE)

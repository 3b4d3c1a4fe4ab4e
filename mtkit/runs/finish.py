"""End a run: choose its weights, score them and write the bundle."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from mtkit.bundle import CHOSEN, LEXICON_START, MANIFEST, BundleFiles, load_network, read_bundle, save_bundle
from mtkit.config.reading.differences import differences
from mtkit.config.schema import Config
from mtkit.config.training import TrainConfig
from mtkit.console import counted, log
from mtkit.data.corpus import corpus_name, first_missing
from mtkit.distributed.weights import load_weights
from mtkit.errors import BundleError, TrainingError
from mtkit.evaluation.metrics.scores import MetricScore
from mtkit.files import MAKE_ROOM
from mtkit.model.network import Network
from mtkit.runs.folder import chosen_keys
from mtkit.runs.report import refresh_report
from mtkit.training.metrics_log import scores_at_start
from mtkit.training.preparation.learning_curve import LANGUAGES
from mtkit.training.preparation.prepare import text_fingerprints
from mtkit.training.preparation.prepared import Prepared
from mtkit.training.update.schedule import limits_reached
from mtkit.training.update.state import Scored, TrainState
from mtkit.training.validation.validator import DevScores, quality, scored

# Of 1,000 dev sets drawn from dev. An estimate, not yet checked on many runs: on 300 sentences, 1.3 BLEU more should be
# better in about nine of ten draws, and a stricter share would keep a mean that is that much worse.
_SURE = 0.9

ENDING = ".ending"  # the file in a run's folder while mtkit writes the model and what it adds to it


@dataclass(frozen=True)
class TrainResult:
    """The result of a finished run."""

    bundle: Path  # RUN/model
    steps: int  # updates, in all starts
    stopped_by: str  # the limits that ended it: "max_steps", or "max_steps, max_epochs"
    dev_scores: dict[str, float]  # of the bundle: loss, perplexity, bleu, chrf
    averaged_steps: tuple[int, ...]  # steps of the averaged checkpoints


def finish(run: Prepared, state: TrainState, model: Network, limits: Sequence[str]) -> TrainResult:
    """Write the bundle: the mean of the checkpoints' weights, or the best one alone if the run shows that it is better.

    model: a model of the run's shape, which receives the weights. limits: the keys of the limits that ended the run.
    """
    steps, scores = _load_chosen(run, state, model)
    scores, calibration = run.text.calibrate(model, scores)
    signed = run.validator.signed_scores(scores)
    of_first = next(iter(signed.values()))
    training = {
        "step": state.step,
        "stopped_by": ", ".join(limits),
        "averaged_steps": steps,
        "minutes": round(state.seconds / 60, 2),
        CHOSEN: chosen_keys(run.run_dir),
        LEXICON_START: run.cfg.train.begins_with_lexicon,
        "data_fingerprint": state.train_fingerprint,
        "dev": scores.figures(),
        "dev_metrics": [asdict(score) for score in of_first],
        "dev_metrics_of": {label: [asdict(score) for score in of_set] for label, of_set in signed.items()},
        **run.text.facts,
        **calibration,
    }
    _log_gain(run, scores)
    folder = _save(run, model, training)
    if report := refresh_report(run.run_dir):
        log.info(f"report: {report}")
    log.info(
        f"finished after {counted(state.step, 'step')}, {state.seconds / 60:.1f} minutes "
        f"({_values(run.cfg.train, limits)}); dev {scores} ({_how_sure(run, signed)}; {of_first[0].signature}); "
        f"model: {folder}"
    )
    if expected := run.expected_bleu(state.step):
        log.info(f"measured runs with {LANGUAGES} lead to a dev BLEU of {expected} after as many updates")
    if steps == [0]:
        log.warning(
            f"no weights of this run are better on dev than {run.cfg.train.init_from}, which it started from; {folder} "
            "has the weights of that model"
        )
    if problem := scores.finding():
        log.warning(problem)
    return TrainResult(folder, state.step, ", ".join(limits), scores.figures(), tuple(steps))


def _how_sure(run: Prepared, signed: Mapping[str, Sequence[MetricScore]]) -> str:
    """Return the interval of the main score on the first dev set, and how many sentences were translated."""
    (label, [main, *_]), n, n_all = next(iter(signed.items())), run.validator.n_sentences, run.validator.n_pairs
    where = f" on {label}" if len(signed) > 1 else f" on {n:,} of {n_all:,} sentences" if n < n_all else ""
    return f"{main.name}{where}: 95 % from {main.low:.2f} to {main.high:.2f}"


def _log_gain(run: Prepared, scores: DevScores) -> None:
    """Log the scores before and after, if the run started from a model."""
    if before := scores_at_start(run.run_dir):
        metric = run.cfg.train.metric
        after = scores.figures()
        log.info(
            f"dev before | after: {metric} {before[metric]:.2f} | {after[metric]:.2f}, loss {before['loss']:.3f} | "
            f"{after['loss']:.3f}"
        )


def _save(run: Prepared, model: Network, training: Mapping[str, Any]) -> Path:
    """Write the bundle and return its folder. training: what its manifest records of the run."""
    folder, spm = run.run_dir / "model", [run.run_dir / f"{side}.spm" for side in ("src", "tgt")]
    try:
        added = run.text.files_for_bundle()
        save_bundle(folder, model.state_dict(), run.cfg, *spm, training=training, added=added)
    except SafetensorError as error:  # wraps the system's error
        raise TrainingError(f"{folder}: cannot write the model: {error}; {MAKE_ROOM}") from error
    return folder


def rehearse(run: Prepared, scores: DevScores) -> None:
    """Do the work of `finish` without choosing and writing the model, so that the caller can measure it."""
    run.validator.signed_scores(scores)
    _ = run.text.alignment_lexicon, run.text.words  # which `finish` then has
    refresh_report(run.run_dir)


def finished_before(cfg: Config, run_dir: Path, state: TrainState) -> TrainResult | None:
    """Return the result of a run that has reached a limit and has its bundle; None if the run still has work to do.

    Warns about a damaged bundle, which the run then writes again. Raises ConfigError if the run's text has changed.
    """
    limits = limits_reached(cfg.train, state.progress())
    folder = run_dir / "model"
    if not (limits or cfg.train.budget) or not (folder / MANIFEST).exists():
        return None
    if (run_dir / ENDING).exists():
        log.info(f"{folder}: an earlier start was interrupted before the model was complete; writing it again")
        return None
    try:
        bundle = read_bundle(folder, task="any")
        load_network(bundle)
    except BundleError as error:
        log.warning(f"{folder}: the model is damaged; writing it again from the checkpoints ({error})")
        return None
    training = bundle.manifest.get("training", {})
    if training.get("stopped_by") == "budget" and bundle.config.train.budget == cfg.train.budget:
        limits = ["budget"]  # even if a quick last validation left some of it
    if not limits or training.get("step") != state.step:
        return None
    _check_text(cfg, bundle, run_dir, state)
    refresh_report(run_dir)
    # Of these keys, commands such as make-student have an option only for the budget.
    more = " and ".join("give a longer budget" if key == "budget" else f"raise train.{key}" for key in limits)
    log.info(
        f"{run_dir}: already finished after {counted(state.step, 'step')} ({_values(cfg.train, limits)}); "
        f"{more} to continue"
    )
    for key in ("average_best", "average_last"):
        then, now = getattr(bundle.config.train, key), getattr(cfg.train, key)
        unused = key == "average_best" and bundle.config.train.average_last and cfg.train.average_last
        if then != now and not unused:
            log.warning(f"{folder} has train.{key}={then}, not {now}; `mtkit average` computes other means")
    tests = bundle.config.data.test, cfg.data.test
    if tests[0] != tests[1]:
        then, now = ("none" if test is None else corpus_name(test) for test in tests)
        options = "--tsv" if cfg.task == "classify" else "--src and --ref"
        log.warning(
            f"{folder} keeps its data.test: {then} there, {now} here; give `mtkit evaluate` another text with {options}"
        )
    if changed := differences(bundle.config.decode.model_dump(), cfg.decode.model_dump()):
        command = "classify" if cfg.task == "classify" else "translate"
        listed = "; ".join(f"decode.{key}: {old} there, {new} here" for key, old, new in changed)
        log.warning(f"{folder} keeps its settings: {listed}; give `mtkit {command}` other values with --set")
    return TrainResult(folder, state.step, ", ".join(limits), training["dev"], tuple(training["averaged_steps"]))


def _check_text(cfg: Config, bundle: BundleFiles, run_dir: Path, state: TrainState) -> None:
    """Raise ConfigError if text of a finished run has changed; a run whose text is gone stays finished."""
    scores = [one.scores for one in cfg.data.train if one.scores is not None]
    if first_missing([*cfg.data.train, *cfg.data.dev]) is None and all(path.exists() for path in scores):
        state.check_text(run_dir, *text_fingerprints(cfg, (bundle.src_tokenizer, bundle.tgt_tokenizer)))


def _load_chosen(run: Prepared, state: TrainState, model: Network) -> tuple[list[int], DevScores]:
    """Load the run's final weights into the model; return their steps and their scores."""
    cfg = run.cfg.train

    def load(steps: Sequence[int]) -> DevScores:
        load_weights(model, run.checkpoints.mean_weights(steps))
        return run.validator.run(model)

    steps = run.checkpoints.usable([one.step for one in weights_wanted(state, cfg)])
    undamaged = (one for one in state.best if one.step in steps or run.checkpoints.has_weights(one.step))
    best = next(undamaged, None)
    scores = load(steps)
    mean = scored(state.step, scores, cfg)
    if best and steps != [best.step] and quality(best, cfg) > quality(mean, cfg):
        digits = 2 if cfg.metric in ("bleu", "chrf") else 4
        name = f"the mean of {len(steps)} checkpoints" if len(steps) > 1 else f"the last step, {steps[0]}"
        log.info(
            f"step {best.step} alone has a better {cfg.metric} than {name}, "
            f"{best.value:.{digits}f} against {mean.value:.{digits}f}; loss {best.loss:.3f} against {mean.loss:.3f}"
        )
        alone = load([best.step])
        if reason := _reason_for_one(run, best, mean, alone, scores):
            log.info(f"using step {best.step} alone, because {reason}")
            steps, scores = [best.step], alone
        else:
            log.info(f"using {name}, because its loss is lower and the {cfg.metric} of so few sentences varies")
            load_weights(model, run.checkpoints.mean_weights(steps))
    log.info(f"the model has the weights of step {', '.join(map(str, steps))}{' (mean)' if len(steps) > 1 else ''}")
    return steps, scores


def weights_wanted(state: TrainState, cfg: TrainConfig) -> Sequence[Scored]:
    """Return the validated steps whose weights become the model, as their mean.

    The model that the run started from (step 0, with train.init_from) is one of them only if none is better, and then
    it is the only one: a mean with weights that have not learned anything would undo a part of the training.
    """
    if state.best and state.best[0].step == 0:
        return state.best[:1]
    if cfg.average_last and (last := [one for one in state.last if one.step]):
        return last[-cfg.average_last :]
    return list(takewhile(lambda one: one.step > 0, state.best[: cfg.average_best]))


def _reason_for_one(run: Prepared, best: Scored, mean: Scored, alone: DevScores, averaged: DevScores) -> str:
    """Return why the checkpoint with the best metric replaces the mean; "" if the mean stays.

    The best of many validations is partly luck. So if the user leaves train.metric out, and the loss contradicts it,
    the metric needs evidence: it must be better in nearly all resampled dev sets.
    """
    cfg = run.cfg.train
    if "metric" in cfg.model_fields_set:
        return f"train.metric={cfg.metric} decides"
    if not best.loss >= mean.loss:
        return "its loss is lower, too"
    share = run.validator.share_better(alone, averaged)
    return f"its {cfg.metric} is better in {share:.0%} of the resampled dev sets" if share >= _SURE else ""


def _values(cfg: TrainConfig, keys: Sequence[str]) -> str:
    return ", ".join(f"train.{key}={getattr(cfg, key)}" for key in keys)

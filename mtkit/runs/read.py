"""Read the folder of a run, finished or not, for its report."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mtkit.bundle import MANIFEST, weights_checksum
from mtkit.config.reading.loading import load_written_config
from mtkit.config.schema import Config
from mtkit.evaluation.metrics.scores import MetricScore
from mtkit.files import parse_json, write_text
from mtkit.runs.record import read_record
from mtkit.runs.students import frontier
from mtkit.training.metrics_log import read_metrics
from mtkit.training.update.checkpoint import Checkpoints

_TEST_SCORES = "test-scores.json"


@dataclass(frozen=True)
class Scores:
    """The model's scores on a set of sentences."""

    n_sentences: int | None  # None: unknown
    metrics: Sequence[MetricScore]

    @property
    def first(self) -> MetricScore:
        """The main metric: BLEU, or a classifier's accuracy."""
        return self.metrics[0]


@dataclass(frozen=True)
class RunFiles:
    """The content of a run's folder."""

    run_dir: Path
    cfg: Config
    step: int  # updates
    updates: list[dict[str, Any]]  # lines of metrics.jsonl, by kind
    validations: list[dict[str, Any]]
    samples: list[dict[str, Any]]
    recoveries: list[dict[str, Any]]
    record: Mapping[str, Any]  # run.json
    training: Mapping[str, Any] | None  # of the bundle's manifest; None: the run has not finished
    dev: dict[str, Scores]  # of the bundle, by dev set; none if the run has not finished
    test: Scores | None  # of the bundle, if `mtkit evaluate` has scored it
    measured: frontier.Measured | None  # of a finished student and its teacher

    @property
    def before(self) -> Mapping[str, float] | None:
        """The scores on dev of the model in train.init_from; None: there is none, or an older version skipped it."""
        return next((entry for entry in self.validations if entry["step"] == 0), None)

    @property
    def kept_its_start(self) -> bool:
        """Return whether the bundle has the weights that the run started from, because none were better."""
        return self.training is not None and self.training["averaged_steps"] == [0]

    @property
    def scores(self) -> Scores | None:
        """The main scores: on the test set, or else on the first dev set."""
        return self.test or next(iter(self.dev.values()), None)

    @property
    def folder(self) -> str:
        """The path of the run's folder, relative to the current folder if it is inside, quoted for a shell."""
        here = Path.cwd()
        return shlex.quote(str(self.run_dir.relative_to(here) if self.run_dir.is_relative_to(here) else self.run_dir))

    @property
    def seconds(self) -> float | None:
        """Seconds of training and validation, in all starts together."""
        if self.training is not None:
            return float(self.training["minutes"]) * 60
        return self.updates[-1].get("run_s") if self.updates else None


def read_run(run_dir: Path) -> RunFiles:
    """Read the folder. Raises OSError or MtkitError if the config or the metrics are missing."""
    entries = read_metrics(run_dir / "metrics.jsonl")
    lines = {
        kind: [entry for entry in entries if entry["kind"] == kind]
        for kind in ("train", "validation", "samples", "recovery")
    }
    steps = [*Checkpoints(run_dir / "checkpoints").resumable(), *(entry["step"] for entry in entries)]
    step = max(steps, default=0)
    record, manifest = read_record(run_dir), _read_json(run_dir / "model" / MANIFEST)
    training = manifest.get("training")
    if training is not None and training.get("step") != step:
        training = None  # the run has continued
    return RunFiles(
        run_dir=run_dir,
        cfg=load_written_config(run_dir / "config.yaml"),
        step=step,
        updates=lines["train"],
        validations=lines["validation"],
        samples=lines["samples"],
        recoveries=lines["recovery"],
        record=record,
        training=training,
        dev=_dev_scores(training, record) if training else {},
        test=read_test_scores(run_dir / "model") if training else None,
        measured=frontier.read(run_dir) if training else None,
    )


def _dev_scores(training: Mapping[str, Any], record: Mapping[str, Any]) -> dict[str, Scores]:
    """Return the scores in a bundle's manifest by dev set."""
    by_label = training.get("dev_metrics_of", {"dev": training.get("dev_metrics", [])})  # older versions had one
    sizes = record.get("n_translated_of", {"dev": record.get("n_translated")})
    return {
        label: Scores(sizes.get(label), [MetricScore(**values) for values in metrics])
        for label, metrics in by_label.items()
        if metrics
    }


def keep_test_scores(bundle: Path, weights: str, n_sentences: int, metrics: Sequence[MetricScore]) -> Path | None:
    """Write the bundle's scores on the config's test set to its run's folder; return that folder.

    weights: `weights_checksum` before the model was scored, because the bundle may have another model by now.
    Does nothing, and returns None, for a bundle outside a run's folder.
    """
    run_dir = bundle.parent
    if bundle.name != "model" or not (run_dir / "metrics.jsonl").exists():
        return None
    values = {
        "model": weights,
        "n_sentences": n_sentences,
        "scores": [asdict(metric) for metric in metrics],
    }
    write_text(run_dir / _TEST_SCORES, json.dumps(values, indent=1) + "\n")
    return run_dir


def read_test_scores(bundle: Path) -> Scores | None:
    """Return the stored test scores of a run's bundle, unless they belong to an older model."""
    values = _read_json(bundle.parent / _TEST_SCORES)
    if not values or values["model"] != weights_checksum(bundle):
        return None
    return Scores(values["n_sentences"], [MetricScore(**score) for score in values["scores"]])


def _read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file; return an empty dict if it does not exist."""
    if not path.exists():
        return {}
    values: dict[str, Any] = parse_json(path.read_text(encoding="utf-8"))
    return values

"""The part of `mtkit evaluate` for classifiers: score one on labelled text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import mtkit
from mtkit.cli.inspect.shared import log_written
from mtkit.cli.judging.systems import Split, check_single_set, dev_sets, print_by_set
from mtkit.console import log, progress_bar
from mtkit.errors import UsageError
from mtkit.pair_files import lines

if TYPE_CHECKING:
    from mtkit.evaluation import labelled


def is_classifier(folder: Path) -> bool:
    """Return whether the bundle is a classifier's."""
    from mtkit.config.reading import loading

    return loading.load_config(folder / "config.yaml").task == "classify"


def check_options(given: Mapping[str, object], output: Path | None) -> None:
    """Raise UsageError for options of translators. given: option to its value, empty if the user left it out."""
    if foreign := [option for option, value in given.items() if value]:
        raise UsageError(
            f"{', '.join(foreign)}: only for translators, but the model is a classifier; give its text with --tsv, "
            "or a --split of its config"
        )
    if output is not None and output.suffix.lower() != ".html":
        raise UsageError(f"--output {output}: the result of a classifier is a page; give a name that ends in .html")


def evaluate_labels(
    folder: Path,
    *,
    tsv: Path | None,
    split: Split,
    dev_set: str | None,
    output: Path | None,
    device: str,
    overrides: Sequence[str],
    as_json: bool,
) -> None:
    """Score the classifier, and print the scores; also write them as a page if there is an output."""

    if tsv is not None and dev_set is not None:
        raise UsageError(
            f"--dev-set {dev_set} selects a set of the model's config, but --tsv names a file: leave one out"
        )
    sets = [None] if tsv else dev_sets(folder, split, dev_set)
    check_single_set(sets, {"--output": output})
    from mtkit import bundle
    from mtkit.evaluation import labelled_views
    from mtkit.runs import report

    weights = bundle.weights_checksum(folder)
    results = {
        name: _score(mtkit.Classifier.load(folder, device=device, overrides=overrides), tsv, split, name)
        for name in sets
    }

    print_by_set(results, as_json=as_json, as_record=labelled_views.as_record, as_text=labelled_views.as_text)
    if output is not None:
        [result] = results.values()
        labelled_views.write_labelled_page(output, result)
        log_written(output)
    if tsv is None and split == "test" and not overrides and (folder.parent / "metrics.jsonl").exists():
        [result] = results.values()
        report.note_test_scores(folder, weights, result.n, result.scores)


def _score(
    classifier: mtkit.Classifier, tsv: Path | None, split: Split, dev_set: str | None
) -> labelled.LabelledEvaluation:
    """Score the classifier on one set, and log how many rows it left out."""
    from mtkit.evaluation import labelled

    corpus = labelled.labelled_corpus(classifier.files, tsv, split, dev_set)
    [path] = corpus.paths
    with progress_bar(lines.count_lines(path), "classifying", "line") as bar:
        result = labelled.evaluate_classifier(classifier, corpus, advance=bar.update)
    classifier.report()
    if result.n_blank:
        log.warning(f"{path}: left out {result.n_blank:,} of {result.n_blank + result.n:,} rows, which have no text")
    return result


def refuse_tsv(tsv: Path | None, folder: Path | None) -> None:
    """Raise UsageError for labelled text where a translator, or no model, is scored."""
    if tsv is not None and folder is None:
        raise UsageError(
            f"--tsv {tsv}: labelled text is for a classifier, but --system, --src and --ref are for translators"
        )
    if tsv is not None:
        raise UsageError(
            f"--tsv {tsv}: labelled text is for a classifier, but {folder} is a translator; give --src and --ref"
        )

"""What `mtkit evaluate` does for a classifier: score it on labelled text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import mtkit
from mtkit.cli.inspect.shared import log_written
from mtkit.config import loading
from mtkit.console import log, progress_bar
from mtkit.errors import UsageError
from mtkit.evaluation import labelled, labelled_views
from mtkit.formats import lines
from mtkit.runs import report


def is_classifier(folder: Path) -> bool:
    """Whether the bundle is a classifier's."""
    return loading.load_config(folder / "config.yaml").task == "classify"


def check_options(given: Mapping[str, object], output: Path | None) -> None:
    """Raise UsageError for options of translators. given: option to its value, empty if it was not given."""
    if foreign := [option for option, value in given.items() if value]:
        raise UsageError(
            f"{', '.join(foreign)}: for translators, and the model is a classifier; its text is --tsv, or a --split of "
            "its config"
        )
    if output is not None and output.suffix.lower() != ".html":
        raise UsageError(f"--output {output}: a classifier's result is a page; give a name that ends in .html")


def evaluate_labels(
    folder: Path,
    *,
    tsv: Path | None,
    split: str,
    output: Path | None,
    device: str,
    overrides: Sequence[str],
    as_json: bool,
) -> None:
    """Score the classifier, and print the scores; also write them as a page if there is an output."""
    classifier = mtkit.Classifier.load(folder, device=device, overrides=overrides)
    corpus = labelled.labelled_corpus(classifier.files, tsv, split)
    [path] = corpus.paths
    with progress_bar(lines.count_lines(path), "classifying", "line") as bar:
        result = labelled.evaluate_classifier(classifier, corpus, advance=bar.update)
    classifier.report()
    if result.n_blank:
        log.warning(f"{path}: {result.n_blank:,} of {result.n_blank + result.n:,} rows have no text and are left out")
    if output is not None:
        labelled_views.write_labelled_page(output, result)
        log_written(output)
    if as_json:
        print(json.dumps(labelled_views.as_record(result), indent=2, ensure_ascii=False))
    else:
        print("\n".join(labelled_views.as_text(result)))
    if tsv is None and split == "test" and not overrides and (folder.parent / "metrics.jsonl").exists():
        report.note_test_scores(folder, result.n, result.scores)


def refuse_tsv(tsv: Path | None, folder: Path | None) -> None:
    """Raise UsageError for labelled text where a translator, or no model, is scored."""
    if tsv is not None and folder is None:
        raise UsageError(
            f"--tsv {tsv}: labelled text for a classifier, but --system, --src and --ref are for translators"
        )
    if tsv is not None:
        raise UsageError(
            f"--tsv {tsv}: labelled text is for a classifier, but {folder} is a translator; give --src and --ref"
        )

"""Write the sentences and figures of a classifier's report, as report_words and report do for a translator."""

from collections.abc import Iterator

from mtkit.pages.page import thousands
from mtkit.runs.read import RunFiles, Scores
from mtkit.runs.report_words import few_sentences, of_the_filters, of_the_run, rising_loss, spoken, untested

_EXPECTED = "on other texts of the same kind, expect"


def share(value: float) -> str:
    """Format a share as a percentage with one decimal."""
    return f"{100 * value:.1f}\N{NO-BREAK SPACE}%"


def summary(run: RunFiles) -> str:
    """Return the first paragraph."""
    labels = run.cfg.data.labels
    named = ", ".join(labels[:6]) + (", ..." if len(labels) > 6 else "")
    what = "pair of texts" if run.cfg.data.pairs else "text"
    about = f"This page is about a classifier: it gives each {what} one of {len(labels)} labels ({named})."
    counts = run.record.get("text", {}).get("counts")
    learned = f"{thousands(counts['n_kept'])} examples" if counts else "its examples"
    took = "" if run.seconds is None else f" in {spoken(run.seconds)}"
    if run.training is None:
        return (
            f"{about} Its training has not finished. So far it has learned from {learned}{took}. The figures below are "
            "from its latest checkpoint; run the same `mtkit train` command to continue."
        )
    scores = run.scores
    return f"{about} It learned from {learned}{took}." + (
        f" {_in_words(scores, is_test=bool(run.test))}" if scores else ""
    )


def _in_words(scores: Scores, *, is_test: bool) -> str:
    accuracy = scores.first
    n = f"{thousands(scores.n_sentences)} examples" if scores.n_sentences else "examples"
    origin = "which were set aside until the end" if is_test else "which mtkit used to choose the version to keep"
    return (
        f"On {n}, {origin}, it finds the right label for {share(accuracy.score)} "
        f"({_EXPECTED} {share(accuracy.low)} to {share(accuracy.high)})."
    )


def findings(run: RunFiles) -> list[str]:
    """Return what the reader should know before relying on the model, most important first."""
    return [*of_the_run(run), *_of_the_text(run), *rising_loss(run), *few_sentences(run), *untested(run)]


def _of_the_text(run: RunFiles) -> Iterator[str]:
    text = run.record.get("text")
    if not text:
        return
    yield from of_the_filters(text["counts"], "examples")
    for name, overlap in text.get("overlap", {}).items():
        same, near, n = overlap["counts"]["pair"], overlap["counts"]["near"], thousands(overlap["n_pairs"])
        if other := overlap["counts"]["source"]:
            yield f"Of the {n} examples of the {name} text, {thousands(other)} are in training with another label."
        if same or near:
            yield (
                f"Of the {n} examples of the {name} text, {thousands(same)} are also in the training text and "
                f"{thousands(near)} in nearly the same words, so scores on {name} partly measure what the model has "
                "memorised."
            )

"""Write the sentences of a run's report: a summary in everyday words, and findings that readers should know."""

from collections.abc import Iterator
from typing import Any

from mtkit.config.schema import Config
from mtkit.console import counted
from mtkit.languages import english_name
from mtkit.pages.page import thousands
from mtkit.runs.read import RunFiles, Scores
from mtkit.training.validation.translation import too_low

_FEW_SENTENCES = 100  # scores on fewer depend a lot on the choice of sentences
_MUCH_LEFT_OUT = 0.05  # of the pairs
_LATE, _LARGE_GAIN = 0.75, 1.0  # a gain of this many BLEU points in the last quarter suggests longer training
_LOSS_RISE = 0.05  # nats per token above the lowest


def language(code: str) -> str:
    """Return the name of the language, or the code if it is unknown."""
    return {"src": "source", "tgt": "target"}.get(code) or english_name(code) or code


def language_codes(cfg: Config) -> tuple[str, str]:
    """Return the codes of both languages; src and tgt if they are unknown."""
    return cfg.data.src_lang, cfg.data.tgt_lang


def names_languages(cfg: Config) -> bool:
    """Return whether both languages are known."""
    src, tgt = language_codes(cfg)
    return src != "src" and tgt != "tgt"


def spoken(seconds: float) -> str:
    """Format a duration in everyday words."""
    for unit, size in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"


def summary(run: RunFiles) -> str:
    """Return the first paragraph."""
    about = "This page is about a translator"
    if names_languages(run.cfg):
        src, tgt = map(language, language_codes(run.cfg))
        about += f" from {src} into {tgt}"
    about += _began(run)
    learned, took = _text_learned(run), "" if run.seconds is None else f" in {spoken(run.seconds)}"
    if run.training is None:
        return (
            f"{about}. Its training has not finished. So far it has learned from {learned}{took}. The figures below "
            "are from its latest checkpoint; run the same `mtkit train` command to continue."
        )
    overlaps = run.record.get("text", {}).get("dev", {}).get("n_in_training")
    overlap = "some of them are" if overlaps else "none of them is"
    scores, origin = run.scores, f"which mtkit used to choose the version to keep ({overlap} in its training text)"
    if run.test:
        origin = "which were set aside until the end"
    quality = f" {_in_words(scores, origin)}{_on_others(run)}" if scores else ""
    return f"{about}. It learned from {learned}{took}.{quality}"


def _began(run: RunFiles) -> str:
    """Return which model the run started from, if from any."""
    before = run.cfg.train.init_from
    if before is None:
        return ""
    name = before.parent.name if before.name == "model" else before.name  # a bundle is in the folder of its run
    return f", which started from an earlier one ({name})"


def _text_learned(run: RunFiles) -> str:
    counts = run.record.get("text", {}).get("counts")
    if not counts:
        return "its text"
    by = " by another model" if run.record.get("teachers") else ""
    return f"{thousands(counts['n_kept'])} sentences and their translations{by}"


def _in_words(scores: Scores, origin: str) -> str:
    bleu = scores.first
    n = f"{thousands(scores.n_sentences)} sentences" if scores.n_sentences else "sentences"
    return (
        f"On {n}, {origin}, its translations score {bleu.score:.1f} of 100 points for agreement with human "
        f"translations (this measure is called BLEU; on other sentences of the same kind, expect {bleu.low:.1f} to "
        f"{bleu.high:.1f}). 100 would mean exactly the same words, which even a second human translator would not "
        "reach. Read the examples below as well: they show more than a number."
    )


def _on_others(run: RunFiles) -> str:
    """Return the scores on each dev set, if there are several."""
    if len(run.dev) < 2:
        return ""
    each = [f"{scores.first.score:.1f} on {name}" for name, scores in run.dev.items()]
    return f" By dev set, the BLEU is {', '.join(each[:-1])} and {each[-1]}."


def findings(run: RunFiles) -> list[str]:
    """Return what the reader should know before relying on the model, most important first."""
    return [*of_the_run(run), *_of_the_text(run), *_of_the_curves(run), *_of_the_scores(run)]


def of_the_run(run: RunFiles) -> Iterator[str]:
    """Write where the training diverged, and whether it was in vain."""
    for recovery in run.recoveries:
        yield (
            f"The training diverged at step {thousands(recovery['failed_step'])}; it went back to step "
            f"{thousands(recovery['step'])} and continued with half the learning rate."
        )
    if run.kept_its_start:
        yield (
            "The training did not improve the model that it started from, by its scores on the dev text. So the model "
            "here is that one, unchanged."
        )


def _of_the_overlap(overlaps: dict[str, Any]) -> Iterator[str]:
    """Write how much of dev and test is in the training text; equal pairs of dev get a separate sentence."""
    for name, overlap in overlaps.items():
        counts, n_pairs = overlap["counts"], thousands(overlap["n_pairs"])
        if not name.startswith("dev") and counts["pair"]:
            yield (
                f"Of the {n_pairs} sentence pairs of the {name} text, {thousands(counts['pair'])} are also in the "
                f"training text, so scores on {name} partly measure what the model has memorised."
            )
        if counts["source"] or counts["near"]:
            yield (
                f"Of the {n_pairs} sources of the {name} text, {thousands(counts['source'])} are in the training text "
                f"with another translation, and {thousands(counts['near'])} in nearly the same words."
            )


def of_the_filters(counts: dict[str, Any], noun: str) -> Iterator[str]:
    """Write how much of the training text the filters removed, if that is much. noun: what it consists of."""
    left_out = 1 - counts["n_kept"] / max(1, counts["n_read"])
    if left_out >= _MUCH_LEFT_OUT:
        yield f"The filters removed {left_out:.0%} of the {noun}; the table below gives the reasons."


def _of_the_text(run: RunFiles) -> Iterator[str]:
    text = run.record.get("text")
    if not text:
        return
    yield from of_the_filters(text["counts"], "sentence pairs")
    n_dev, n_known = (text["dev"].get(key, 0) for key in ("n_pairs", "n_in_training"))
    if n_known:
        yield (
            f"Of the {thousands(n_dev)} sentence pairs of the dev text, {thousands(n_known)} are also in the training "
            "text, so scores on dev partly measure what the model has memorised, not how well it translates."
        )
    yield from _of_the_overlap(text.get("overlap", {}))
    for side, figures in text["tokenizers"].items():
        if figures["n_unknown"]:
            code = language_codes(run.cfg)[side == "tgt"]
            yield (
                f"{language(code)}: the tokenizer does not know {thousands(figures['n_unknown'])} tokens of the dev "
                "text, so the model cannot see them; set byte_fallback of the tokenizer to true."
            )


def _of_the_curves(run: RunFiles) -> Iterator[str]:
    if len(run.validations) < 4:
        return
    if memorising := list(rising_loss(run)):
        yield from memorising
        return
    last = run.validations[-1]["step"]
    before = [entry["bleu"] for entry in run.validations if entry["step"] <= _LATE * last]
    after = [entry["bleu"] for entry in run.validations if entry["step"] > _LATE * last]
    if before and after and max(after) - max(before) >= _LARGE_GAIN:
        gain = max(after) - max(before)
        yield f"It was still improving, by {gain:.1f} BLEU in the last quarter. Longer training would probably help."


def rising_loss(run: RunFiles) -> Iterator[str]:
    """Write that the dev loss has risen since an earlier validation, if there are enough validations to judge."""
    losses = [entry["loss"] for entry in run.validations]
    if len(losses) >= 4 and losses[-1] > min(losses) + _LOSS_RISE:
        step = run.validations[losses.index(min(losses))]["step"]
        yield (
            f"The dev loss was lowest at step {thousands(step)} and has risen since: the model is memorising its "
            "training text. More text, more dropout or a smaller model would help."
        )


def _of_the_scores(run: RunFiles) -> Iterator[str]:
    if run.scores and (problem := too_low(run.scores.first.score)):
        yield problem
    yield from few_sentences(run)
    yield from untested(run)


def few_sentences(run: RunFiles) -> Iterator[str]:
    """Write that the scores come from few sentences."""
    scores = run.scores
    if scores and scores.n_sentences and scores.n_sentences < _FEW_SENTENCES:
        unit = "example" if run.cfg.task == "classify" else "sentence"
        yield f"The scores come from only {counted(scores.n_sentences, unit)}, so their intervals are wide."


def untested(run: RunFiles) -> Iterator[str]:
    """Write that the test set of the config has no scores yet."""
    if run.training and run.cfg.data.test and not run.test:
        yield f"The test set has no scores yet; get them with `mtkit evaluate --model {run.folder}`."

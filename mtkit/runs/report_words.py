"""What a run's report says in sentences: a summary without jargon, and what its reader should know."""

from collections.abc import Iterator

from mtkit.config.schema import Config
from mtkit.languages import primary_code
from mtkit.pages.page import thousands
from mtkit.runs.read import RunFiles, Scores

_USELESS = 10  # BLEU points; below, hardly a sentence can be understood
_FEW_SENTENCES = 100  # scores of fewer move a lot with the choice of sentences
_MUCH_LEFT_OUT = 0.05  # of the pairs
_LATE, _LARGE_GAIN = 0.75, 1.0  # BLEU points in the last quarter of a run that speak for training longer
_LOSS_RISE = 0.05  # nats per token above the lowest
_LANGUAGES = {
    "ar": "Arabic", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan", "cs": "Czech", "da": "Danish",
    "de": "German", "el": "Greek", "en": "English", "es": "Spanish", "et": "Estonian", "eu": "Basque",
    "fa": "Persian", "fi": "Finnish", "fr": "French", "ga": "Irish", "gl": "Galician", "he": "Hebrew",
    "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "id": "Indonesian", "it": "Italian", "ja": "Japanese",
    "ko": "Korean", "lt": "Lithuanian", "lv": "Latvian", "nb": "Norwegian", "nl": "Dutch", "no": "Norwegian",
    "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovenian",
    "sr": "Serbian", "sv": "Swedish", "sw": "Swahili", "ta": "Tamil", "th": "Thai", "tr": "Turkish",
    "src": "source", "tgt": "target", "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip


def language(code: str) -> str:
    """The name of a language as the config has it; what is no known code stays as it is."""
    return _LANGUAGES.get(primary_code(code), code)


def names_languages(cfg: Config) -> bool:
    """Whether the config says which languages these are."""
    return cfg.data.src_lang != "src" and cfg.data.tgt_lang != "tgt"


def spoken(seconds: float) -> str:
    """A time as one says it."""
    for unit, size in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"


def summary(run: RunFiles) -> str:
    """The first paragraph."""
    data = run.cfg.data
    about = "This page is about a translator"
    if names_languages(run.cfg):
        about += f" from {language(data.src_lang)} into {language(data.tgt_lang)}"
    about += _began(run)
    learnt, took = _text_learnt(run), "" if run.seconds is None else f" in {spoken(run.seconds)}"
    if run.training is None:
        return (
            f"{about}. Its training has not finished: so far it has learnt from "
            f"{learnt}{took}. The figures below are those of the last look at it; the same `mtkit train` command goes "
            "on with it."
        )
    learnt_too = run.record.get("text", {}).get("dev", {}).get("n_in_training")
    seen = "some of which it learnt from, and they" if learnt_too else "which it did not learn from, though they"
    scores, kept = (
        (run.test, "which were kept aside until the end")
        if run.test
        else (run.dev, f"{seen} decided which of its states was kept")
    )
    quality = f" {_in_words(scores, kept)}" if scores else ""
    return f"{about}. It learnt from {learnt}{took}.{quality}"


def _began(run: RunFiles) -> str:
    """Which model it was before this run, if it was one."""
    before = run.cfg.train.init_from
    if before is None:
        return ""
    name = before.parent.name if before.name == "model" else before.name  # a bundle lies in its run
    return f", which goes on from an earlier one ({name})"


def _text_learnt(run: RunFiles) -> str:
    counts = run.record.get("text", {}).get("counts")
    if not counts:
        return "its text"
    whose = " that another model has made of them" if run.record.get("teachers") else ""
    return f"{thousands(counts['n_kept'])} pairs of sentences and {'' if whose else 'their '}translations{whose}"


def _in_words(scores: Scores, kept: str) -> str:
    bleu = scores.bleu
    n = f"{thousands(scores.n_sentences)} sentences" if scores.n_sentences else "sentences"
    return (
        f"On {n}, {kept}, its translations got {bleu.score:.1f} of 100 points for agreeing with those that people had "
        f"made (the measure is called BLEU; with other sentences of the same kind, expect {bleu.low:.1f} to "
        f"{bleu.high:.1f}). 100 would mean the same words everywhere, which a second human translator would not reach "
        "either, so do read the examples below: they say more than a number."
    )


def findings(run: RunFiles) -> list[str]:
    """What the reader should know before relying on the model; in the order of weight."""
    return [*_of_the_run(run), *_of_the_text(run), *_of_the_curves(run), *_of_the_scores(run)]


def _of_the_run(run: RunFiles) -> Iterator[str]:
    for recovery in run.recoveries:
        yield (
            f"The training diverged at step {thousands(recovery['failed_step'])}; it went back to step "
            f"{thousands(recovery['step'])} and went on with half the learning rate."
        )


def _of_the_text(run: RunFiles) -> Iterator[str]:
    text = run.record.get("text")
    if not text:
        return
    counts = text["counts"]
    left_out = 1 - counts["n_kept"] / max(1, counts["n_read"])
    if left_out >= _MUCH_LEFT_OUT:
        yield f"The filters left out {left_out:.0%} of the sentence pairs; the table below says for what reason."
    n_dev, n_known = (text["dev"].get(key, 0) for key in ("n_pairs", "n_in_training"))
    if n_known:
        yield (
            f"Of the {thousands(n_dev)} sentence pairs of the dev text, {thousands(n_known)} stand in the training "
            "text too: scores on dev tell in part what the model knows by heart, not how well it translates."
        )
    for side, figures in text["tokenizers"].items():
        if figures["n_unknown"]:
            code = run.cfg.data.src_lang if side == "src" else run.cfg.data.tgt_lang
            yield (
                f"{language(code)}: {thousands(figures['n_unknown'])} tokens of the dev text are unknown to the "
                "tokenizer and lost; set tokenizer byte_fallback to true."
            )


def _of_the_curves(run: RunFiles) -> Iterator[str]:
    if len(run.validations) < 4:
        return
    last = run.validations[-1]["step"]
    before = [entry["bleu"] for entry in run.validations if entry["step"] <= _LATE * last]
    after = [entry["bleu"] for entry in run.validations if entry["step"] > _LATE * last]
    losses = [entry["loss"] for entry in run.validations]
    if losses[-1] > min(losses) + _LOSS_RISE:
        step = run.validations[losses.index(min(losses))]["step"]
        yield (
            f"The dev loss was lowest at step {thousands(step)} and has risen since: the model learns its text by "
            "heart. More text, more dropout or a smaller model would help."
        )
    elif before and after and max(after) - max(before) >= _LARGE_GAIN:
        gain = max(after) - max(before)
        yield f"It was still getting better: {gain:.1f} BLEU in the last quarter. Training longer would probably help."


def _of_the_scores(run: RunFiles) -> Iterator[str]:
    scores = run.test or run.dev
    if scores and scores.bleu.score < _USELESS:
        yield (
            f"A BLEU of {scores.bleu.score:.1f} is too little to be of use: it needs more text or a longer training, "
            "or the lines of its text do not belong together."
        )
    if scores and scores.n_sentences and scores.n_sentences < _FEW_SENTENCES:
        yield f"The scores come from {scores.n_sentences} sentences only: mind the intervals."
    if run.training and run.cfg.data.test and not run.test:
        yield f"The test set has not been translated yet: `mtkit evaluate --model {run.folder}` will do so."

"""Detect that a model does not suit a text: it is in another language, or unlike the training text."""

from collections.abc import Iterable, Sequence

from mtkit.bundle import BundleFiles, bundle_file
from mtkit.config.data import DataConfig
from mtkit.console import log
from mtkit.data.sides import FEW_WORDS, FILE, Resemblance, Sides, Verdict, load_counts
from mtkit.errors import DataError
from mtkit.pair_files.lines import windows

_WARN_MARGIN = 3  # three words of the target language and none of the source
_REFUSE_MARGIN = 20
_LOOKED_AT_ONCE = 100  # lines


def sides_of(files: BundleFiles) -> Sides | None:
    """Return the sides of the bundle's training text; None if they are unknown: one tokenizer, and no counts."""
    path = bundle_file(files, FILE)
    if path is None:
        return Sides.from_tokenizers(files.src_tokenizer, files.tgt_tokenizer)
    tokenizers = files.src_tokenizer, files.tgt_tokenizer
    return Sides.from_counts(*tokenizers, *load_counts(path, *tokenizers))


class DirectionCheck:
    """Watches the lines that a model translates, and warns once if it does not suit them."""

    def __init__(self, files: BundleFiles, sides: Sides | None) -> None:
        """sides: what `sides_of` returns for the files; it takes milliseconds, so reuse it for many texts."""
        self._files = files
        self._text = None if sides is None else Resemblance(sides)
        self.is_done = sides is None

    def add(self, lines: Sequence[str]) -> None:
        """Examine the next lines until there are enough of them."""
        if self.is_done or self._text is None:
            return
        self._text.add(lines)
        data = self._files.config.data
        problem = _problem(self._text.verdict(_WARN_MARGIN, FEW_WORDS), self._text, data)
        if not problem and self._text.is_unfamiliar:
            problem = f"{_unlike(self._text, data)}, so many translations may be wrong"
        if problem:
            log.warning(f"the text {problem}; is {self._files.folder} the right model?")
        self.is_done = bool(problem) or self._text.is_enough


def warn_of_direction(lines: Iterable[str], files: BundleFiles) -> None:
    """Examine the first lines of a text as `DirectionCheck` does."""
    check = DirectionCheck(files, sides_of(files))
    for window in windows(lines, _LOOKED_AT_ONCE):
        check.add(window)
        if check.is_done:
            return


def check_source_text(name: str, lines: Iterable[str], files: BundleFiles) -> None:
    """Raise DataError if this text, which becomes training text, is clearly not in the model's source language."""
    sides = sides_of(files)
    if sides is None:
        return
    resemblance = Resemblance(sides).add(lines)
    if problem := _problem(resemblance.verdict(_REFUSE_MARGIN), resemblance, files.config.data):
        data = files.config.data
        raise DataError(
            f"{name}: the text {problem}, so its translations would spoil the training text; give text in "
            f"{data.src_lang}, or a model that translates from the language of this text "
            f"({files.folder} translates from {data.src_lang} into {data.tgt_lang})"
        )


def _problem(verdict: Verdict, text: Resemblance, data: DataConfig) -> str:
    if verdict == "tgt":
        return (
            f"looks like the model's target language ({data.tgt_lang}), not its source language "
            f"({data.src_lang}): {text.n_tgt:,} of {text.n_tgt + text.n_src:,} words are likelier there"
        )
    if verdict == "neither":
        return f"{_unlike(text, data)}, so it is in another language or on another subject"
    return ""


def _unlike(text: Resemblance, data: DataConfig) -> str:
    model = f"{data.src_lang}-{data.tgt_lang} model"
    return f"is unlike the training text of this {model}: its words are {text.foreignness:.1f} times as hard to predict"

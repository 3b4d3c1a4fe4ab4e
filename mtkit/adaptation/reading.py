"""Turn the pairs of a memory into what a model can learn from: pairs as a translator reads and writes them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mtkit.adaptation.memory import Memory
from mtkit.alignment.placing import readable, without
from mtkit.bundle import BundleFiles
from mtkit.config.data import CorpusFiles
from mtkit.console import counted
from mtkit.files import write_text
from mtkit.languages import SIDES
from mtkit.text.words import Span
from mtkit.tokens.protected import Protector, meets
from mtkit.tokens.special_ids import UNK_ID


def as_read(memory: Memory, model: BundleFiles, folder: Path) -> tuple[Memory, str]:
    """Return the memory with training text that the model can learn from, and what this changes, in words.

    A translator takes what a model cannot know out of a source, and puts it into the translation. So the model learns
    a pair without it. Some pairs are left out, because they would teach the model to write what it does not read, or
    what a search never chooses. folder: gets the text.
    """
    reader = _Reader(model)
    pairs = [(pair.src, pair.tgt) for pair in memory.pairs("train")]
    read = [reader.read(*pair) for pair in pairs]
    kept = [pair for pair in read if pair is not None]
    if kept == pairs:
        return memory, ""
    paths = {side: folder / f"read.{side}" for side in SIDES}
    for index, path in enumerate(paths.values()):
        write_text(path, "".join(f"{pair[index]}\n" for pair in kept))
    n_changed = sum(new not in (None, old) for new, old in zip(read, pairs, strict=True))
    without_them = f"training uses {counted(n_changed, 'pair')} without characters that the model does not know"
    left_out = f"leaves out {counted(len(pairs) - len(kept), 'pair')} because of such characters"
    return replace(memory, train=CorpusFiles(**paths)), f"{without_them}, and {left_out}"


class _Reader:
    """Reads pairs as a model does."""

    def __init__(self, model: BundleFiles) -> None:
        self._tgt_tokenizer = model.tgt_tokenizer
        self._src = Protector(model.src_tokenizer, model.config.data.src_lang)
        self._tgt = Protector(model.tgt_tokenizer, model.config.data.tgt_lang)

    def read(self, src: str, tgt: str) -> tuple[str, str] | None:
        """Return a pair as the model reads it; None if it can learn nothing from it, or something wrong."""
        protected = self._src.find(src)
        spans = protected.spans if protected.unknown else []
        taken = [src[start:end] for start, end in spans]
        copies = _copies(tgt, [text for text in taken if _has_word(text)])
        others = [span for span in self._tgt.find(tgt).unknown if not meets(copies, span)]
        if len(taken) == len(copies) + len(others):
            copies = sorted([*copies, *others])  # perhaps in another form, such as another language's quotation marks
        elif len(copies) == sum(map(_has_word, taken)):
            copies = _copies(tgt, taken)
        else:
            return None  # the target has as words what the model does not read
        new_src, new_tgt = (
            readable(without(text, parts)) if parts else text for text, parts in ((src, spans), (tgt, copies))
        )
        if not new_src or not new_tgt or UNK_ID in self._tgt_tokenizer.encode(new_tgt):
            return None
        return new_src, new_tgt


def _has_word(text: str) -> bool:
    return any(map(str.isalnum, text))


def _copies(text: str, parts: Sequence[str]) -> list[Span]:
    """Return where a text has copies of these parts, each in a place of its own; the longest ones come first."""
    spans: list[Span] = []
    for part in sorted(parts, key=len, reverse=True):
        start = text.find(part)
        while start >= 0 and meets(spans, (start, start + len(part))):
            start = text.find(part, start + 1)
        if start >= 0:
            spans = sorted([*spans, (start, start + len(part))])
    return spans

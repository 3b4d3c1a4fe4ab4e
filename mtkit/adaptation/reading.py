"""Turn the pairs of a memory into what a model can learn from: as a translator reads them, and short enough."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mtkit.adaptation.memory import Memory
from mtkit.alignment.placing import readable, without
from mtkit.bundle import BundleFiles
from mtkit.config.data import CorpusFiles
from mtkit.console import counted
from mtkit.data.corpus import read_pairs
from mtkit.data.encoding import PairEncoding
from mtkit.errors import DataError
from mtkit.files import write_text
from mtkit.languages import SIDES
from mtkit.text.words import Span
from mtkit.tokens.new_pieces import can_have_more
from mtkit.tokens.protected import Protector, meets
from mtkit.tokens.special_ids import UNK_ID


def as_read(memory: Memory, model: BundleFiles, folder: Path, name: str) -> tuple[Memory, str]:
    """Return the memory with training text that the model can learn from, and what this changes, in words.

    A translator takes what a model cannot know out of a source, and puts it into the translation. So the model learns
    a pair without it. Some pairs are left out, because they would teach the model to write what it does not read, or
    what a search never chooses, and others because training takes no pairs so long.
    folder: gets the text. name: of the memory, for messages.
    Raises DataError if no pair is left.
    """
    reader = _Reader(model)
    pairs = [(pair.src, pair.tgt) for pair in memory.pairs("train")]
    read = [reader.read(*pair) for pair in pairs]
    text = CorpusFiles(**{side: folder / f"read.{side}" for side in SIDES})
    _write(text, [pair for pair in read if pair is not None])
    kept = _short_enough(text, model)
    changes, unknown = [], "characters that the model does not know"
    if n_changed := sum(new not in (None, old) for new, old in zip(read, pairs, strict=True)):
        changes.append(f"training uses {counted(n_changed, 'pair')} without {unknown}")
        unknown = "such characters"
    if n_unknown := read.count(None):
        changes.append(f"training leaves out {counted(n_unknown, 'pair')} because of {unknown}")
    if n_long := len(pairs) - n_unknown - len(kept):
        limit = f"data.max_tokens={model.config.data.max_tokens} of the model"
        changes.append(f"training leaves out {counted(n_long, 'pair')} because of their length ({limit})")
    if not kept:
        raise DataError(
            f"{name}: the model cannot learn from any of its {counted(len(pairs), 'pair')}: {', and '.join(changes)}; "
            f"{_remedy(model, is_unknown=n_unknown >= n_long)}"
        )
    if kept == pairs:
        return memory, ""
    _write(text, kept)
    return replace(memory, train=text), ", and ".join(changes)


def _remedy(model: BundleFiles, *, is_unknown: bool) -> str:
    if not is_unknown:
        return "split its segments into sentences"
    if can_have_more(model.src_tokenizer) and can_have_more(model.tgt_tokenizer):
        return "--new-pieces 200 gives these characters pieces"
    return "use a model that knows these characters"


def _short_enough(corpus: CorpusFiles, model: BundleFiles) -> list[tuple[str, str]]:
    """Return the pairs of a corpus that training with this model takes."""
    pairs = [(pair.src, pair.tgt) for pair in read_pairs([corpus])]
    encoding = PairEncoding(model.src_tokenizer, model.tgt_tokenizer, model.config.data.max_tokens, None)
    n_read, kept = 0, []
    for chunk in encoding.chunks(corpus.model_copy(update={"tag": model.config.decode.tag})):
        kept += [pairs[n_read + index] for index in chunk.kept]
        n_read += len(chunk.lines)
    return kept


def _write(corpus: CorpusFiles, pairs: Sequence[tuple[str, str]]) -> None:
    for index, path in enumerate(corpus.paths):
        write_text(path, "".join(f"{pair[index]}\n" for pair in pairs))


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

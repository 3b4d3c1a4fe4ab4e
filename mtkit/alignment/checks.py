"""Check translations by the rules of `quality.faults` and by the lexicon of a bundle."""

from collections.abc import Sequence
from functools import cached_property

from mtkit.alignment.coverage import Coverage, is_short, usual_ratio
from mtkit.bundle import BundleFiles
from mtkit.quality.faults import Fault, find_faults
from mtkit.text.capitals import is_in_capitals, is_in_small_letters, may_be_title
from mtkit.tokens.tokenizer import Tokenizer


class Checks:
    """What decides whether a translation looks broken: the same wherever mtkit translates."""

    def __init__(
        self,
        tgt_lang: str | None = None,
        files: BundleFiles | None = None,
        tokenizers: tuple[Tokenizer, Tokenizer] | None = None,
    ) -> None:
        """tgt_lang: language of the translations, such as "fr". files: a bundle with a lexicon, of source and target
        tokens by its tokenizers or these, which may put a tag first; without a lexicon, the rules alone decide.
        """
        self._tgt_lang, self._files = tgt_lang, files
        if files is not None and tokenizers is None:
            tokenizers = files.src_tokenizer, files.tgt_tokenizer
        self._tokenizers = tokenizers
        self._usual_ratio = usual_ratio(files)

    def faults(
        self,
        src: str,
        text: str,
        ids: tuple[Sequence[int], Sequence[int]] | None = None,
        *,
        finished: bool = True,
        before: Sequence[Fault] = (),
    ) -> tuple[Fault, ...]:
        """Return what looks wrong with a translation, as `find_faults` does.

        ids: the tokens of both, if a model has read and written them. before: the faults of an earlier translation,
        whose missing words must be translated now.
        """
        faults = find_faults(src, text, finished=finished, tgt_lang=self._tgt_lang)
        if any(fault.kind in ("empty", "length", "omission") for fault in faults):
            return faults
        among = next((fault.detail for fault in before if fault.kind == "omission"), "")
        if not (among or is_short(src, text, self._usual_ratio)) or self._coverage is None or self._tokenizers is None:
            return faults
        if ids is None:
            if is_in_capitals(src) or may_be_title(src) or is_in_small_letters(src):  # the model may have read others
                return faults
            src_tokenizer, tgt_tokenizer = self._tokenizers
            ids = src_tokenizer.encode(src), tgt_tokenizer.encode(text)
        left_out = self._coverage.left_out(*ids, text, among)
        return (Fault("omission", left_out), *faults) if left_out else faults

    @cached_property
    def _coverage(self) -> Coverage | None:
        if self._files is None or self._tokenizers is None:
            return None
        return Coverage.from_bundle(self._files, self._tokenizers[0])

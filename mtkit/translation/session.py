"""A text on its way through a translator: windows of lines in, translations out, and at the end what was noticed."""

from collections import Counter
from collections.abc import Sequence

from mtkit.console import log
from mtkit.translation.review import Review
from mtkit.translation.terminology import TermReport
from mtkit.translation.translator import Translation, Translator


class Session:
    """Translates the lines of one text, looks at the translations, and keeps account of them."""

    def __init__(self, translator: Translator, n_best: int = 1, prefix: Sequence[int] = ()) -> None:
        """n_best: candidates per line, at most the beam size; when sampling, so many draws.

        prefix: target tokens that every translation begins with.
        """
        self.translator = translator
        self.n_best = n_best
        self.prefix = prefix
        self.n_lines = 0
        self.n_unfinished = 0
        self.review = Review(
            translator,
            translator.decode,
            tgt_lang=translator.tgt_lang,
            rules_in_beam=translator.engine.name == "native",
        )
        self.terms = None if translator.terminology is None else TermReport(translator.terminology)

    def translate(self, lines: Sequence[str], first_line: int | None = None) -> list[Translation]:
        """The translations of the next lines. first_line: the number of the first, if other than the next one."""
        first_line = first_line or self.n_lines + 1
        self.review.tally.n_before = first_line - 1 - self.n_lines
        prefixes = [self.prefix] * len(lines) if self.prefix else None
        found = self.translator.search(lines, n_best=self.n_best, prefixes=prefixes, first_line=first_line)
        reviewed = self.review.window(lines, found, prefixes=prefixes)
        translations = [
            Translation(line, review.candidates, review.faults) for line, review in zip(lines, reviewed, strict=True)
        ]
        self.n_lines += len(lines)
        self.n_unfinished += sum(not translation.finished for translation in translations)
        if self.terms is not None:
            for translation in translations:
                self.terms.add(translation.src, translation.text)
        return translations

    def counts(self) -> Counter[str]:
        """What was noticed so far, as numbers: of translations that are unfinished or suspect, and of terms."""
        counts = Counter(unfinished=self.n_unfinished, suspect=self.review.tally.n_suspect)
        if self.terms is not None:
            counts.update(
                terms=self.terms.n_required, terms_met=self.terms.n_met, forbidden_phrases=self.terms.n_forbidden
            )
        return counts

    def report(self) -> None:
        """Say on stderr what was noticed, if anything was."""
        warn_unfinished(self.n_unfinished, self.n_lines)
        self.review.warn()
        if self.terms is not None:
            for line in self.terms.lines():
                log.info(line)


def warn_unfinished(n_unfinished: int, n_lines: int) -> None:
    """Say on stderr how many translations the length limit ended, if any."""
    if n_unfinished:
        log.warning(
            f"{n_unfinished} of {n_lines} translations hit the length limit (decode.max_len_factor, "
            "decode.max_len_constant, decode.max_len): they may be incomplete or repeat themselves"
        )

"""Format translations as lines of text, or as JSON with scores, tokens and alignments."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mtkit
from mtkit.console import log
from mtkit.translation import review

if TYPE_CHECKING:
    from mtkit.scoring import scoring
    from mtkit.translation.candidates import Candidate, Translation


@dataclass(frozen=True)
class Rendering:
    """The format of a translator's output lines."""

    translator: mtkit.Translator
    as_json: bool = False
    tokens: bool = False  # each token's log-probability (JSON only)
    alignments: bool = False

    def lines(self, translations: Sequence[Translation], first_line: int) -> list[str]:
        """Return a line for each translation. first_line: line number of the first."""
        links = self._links(translations, first_line) if self.alignments else None
        if not self.as_json:
            texts = [self._text(translation) for translation in translations]
            return texts if links is None else [f"{t}\t{link[0]}" for t, link in zip(texts, links, strict=True)]
        scores = self._scores(translations) if self.tokens else None
        return [
            json.dumps(
                self._record(
                    first_line + row,
                    translation,
                    None if links is None else links[row],
                    None if scores is None else scores[row],
                ),
                ensure_ascii=False,
            )
            for row, translation in enumerate(translations)
        ]

    def _text(self, translation: Translation) -> str:
        if self.translator.decode.on_suspect != "mark":
            return translation.text

        return review.marked(translation.text, translation.faults)

    def _record(
        self, line: int, translation: Translation, links: list[str] | None, scores: list[scoring.PairScore] | None
    ) -> dict[str, Any]:
        hypotheses = [self._hypothesis(candidate) for candidate in translation.n_best]
        for hypothesis, link in zip(hypotheses, links or [], strict=False):
            hypothesis["alignment"] = link
        for hypothesis, score in zip(hypotheses, scores or [], strict=False):
            tokens = zip(score.pieces, score.log_probs, strict=True)
            hypothesis["tokens"] = [[piece, round(log_prob, 6)] for piece, log_prob in tokens]
        record: dict[str, Any] = {"line": line, "src": translation.src, "hypotheses": hypotheses}
        if translation.respelt:
            record["read_as"] = dict(translation.respelt)
        if translation.matches:
            record["matches"] = [match.as_json() for match in translation.matches]
        if translation.faults:
            record["faults"] = [
                {"kind": fault.kind, "detail": fault.detail}
                | ({} if fault.segment is None else {"segment": fault.segment})
                for fault in translation.faults
            ]
        return record

    def _hypothesis(self, candidate: Candidate) -> dict[str, Any]:
        record: dict[str, Any] = {
            "text": candidate.text,
            "score": None if candidate.is_from_memory else round(candidate.score, 6),
            "log_prob": None if candidate.is_from_memory else round(candidate.log_prob, 6),
            "finished": candidate.finished,
        }
        if candidate.is_from_memory:
            record["from_memory"] = True
        confidence = self.translator.confidence(candidate)
        return record if confidence is None else {**record, "confidence": confidence}

    def _links(self, translations: Sequence[Translation], first_line: int) -> list[list[str]]:
        """Return the word alignment of each candidate in Pharaoh format; empty for a line that mtkit split."""
        from mtkit.alignment import attention, lexicon
        from mtkit.scoring import scoring

        models = scoring.native_models(self.translator.engine, "word alignments")
        split = [translation.is_long for translation in translations]
        for line, is_split in enumerate(split, start=first_line):
            if is_split:
                log.warning(f"line {line}: no word alignment, because the line is too long for the model")
        rows = list(zip(translations, split, strict=True))
        pairs = [(row.src, candidate.text) for row, is_split in rows if not is_split for candidate in row.n_best]
        tokenizers = self.translator.src_tokenizer, self.translator.tgt_tokenizer
        known = lexicon.alignment_lexicon(self.translator.files)
        links = iter(attention.align(models[0], *tokenizers, pairs, lexicon=known))
        return [["" if is_split else next(links) for _ in row.n_best] for row, is_split in rows]

    def _scores(self, translations: Sequence[Translation]) -> list[list[scoring.PairScore]]:
        from mtkit.scoring import scoring

        return scoring.score_candidates(self.translator, translations)

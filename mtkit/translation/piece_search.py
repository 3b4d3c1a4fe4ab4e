"""Translate pieces: token ids through the engine, hypotheses back to text, best candidates first."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from mtkit.alignment.placing import Aligner
from mtkit.config.decoding import DecodeConfig
from mtkit.config.tags import TOKENS
from mtkit.pair_files.lines import as_one_line
from mtkit.search.hypothesis import Engine, Hypothesis, Segment
from mtkit.text.lines import keep_edges
from mtkit.tokens.placeholders import restore
from mtkit.tokens.tokenizer import Tokenizer
from mtkit.translation import mbr
from mtkit.translation.candidates import BLANK, Candidate, join_candidates
from mtkit.translation.pieces import Cutter, Piece
from mtkit.translation.reading import Reader
from mtkit.translation.term_search import TermSearch
from mtkit.translation.terminology import Terminology


@dataclass
class PieceSearch:
    """Finds the candidates of pieces with one engine, for the settings `decode` or those that a call gives."""

    reader: Reader
    engine: Engine
    tgt_tokenizer: Tokenizer
    decode: DecodeConfig
    aligner: Aligner  # places protected text that the model has not read
    terminology: Terminology | None = None
    utility: mbr.Utility | None = None  # chooses among decode.mbr_samples draws; None: expected chrF

    def candidates(
        self, pieces: Sequence[Piece], *, decode: DecodeConfig | None = None, n_best: int = 1
    ) -> list[list[Candidate]]:
        """Return the n best candidates of each piece; one that is too long for these settings is split further.

        What a translation memory has is not searched. Where the model changes protected text, it translates the rest,
        and the alignment places that text.
        """
        decode = decode or self.decode
        unsettled = [piece for piece in pieces if not piece.is_settled]
        rows = self.search(unsettled, decode, n_best, self.reader.cutter)
        kept = [self._that_keep(piece, row) for piece, row in zip(unsettled, rows, strict=True)]
        lost = [index for index, (row, of_row) in enumerate(zip(rows, kept, strict=True)) if len(of_row) < len(row)]
        if lost:
            bare = self.reader.bare.encode_again([unsettled[index] for index in lost])
            for index, row in zip(lost, self.search(bare, decode, n_best, self.reader.bare), strict=True):
                texts = {candidate.text for candidate in kept[index]}
                others = [candidate for candidate in row if candidate.text not in texts]
                rows[index] = [*kept[index], *others][: len(rows[index])]
        found = iter(rows)
        return [
            [Candidate(piece.match.tgt, [], 0.0, 0.0, True, is_from_memory=True)]
            if piece.match and piece.is_settled
            else next(found)
            for piece in pieces
        ]

    def _that_keep(self, piece: Piece, candidates: list[Candidate]) -> list[Candidate]:
        """Return the candidates that have all protected text of the piece, if the best one is among them."""
        values = [] if piece.inline is not None or piece.is_blank else piece.kept
        if not values:
            return candidates
        keep = [sorted(self.reader.protector.values(candidate.text)) == sorted(values) for candidate in candidates]
        return [candidate for candidate, keeps in zip(candidates, keep, strict=True) if keeps and keep[0]]

    def search(
        self, pieces: Sequence[Piece], decode: DecodeConfig, n_best: int, cutter: Cutter
    ) -> list[list[Candidate]]:
        """Return the n best candidates of each piece, as this cutter lets the model read it."""
        n_draws, limit = decode.mbr_samples, self.max_src_tokens(decode)
        parts = [cutter.cut(piece, limit) for piece in pieces]
        found = iter(self._translated([part for of_piece in parts for part in of_piece], decode, n_draws or n_best))
        candidates = [_joined([(next(found), part.gap) for part in of_piece]) for of_piece in parts]
        if not n_draws:
            return candidates
        return [
            draws if draws == [BLANK] else mbr.rank(draws, piece.text, self.utility)[:n_best]
            for piece, draws in zip(pieces, candidates, strict=True)
        ]

    def _translated(self, parts: Sequence[Piece], decode: DecodeConfig, n_best: int) -> list[list[Candidate]]:
        """Return the n best candidates of each part, with its protected text; none of a blank one."""
        segments = [self.segment(part, decode) for part in parts if not part.is_blank]
        hypotheses = iter(zip(segments, self._hypotheses(segments, decode, n_best), strict=True))
        rows: list[list[Candidate]] = []
        for part in parts:
            if part.is_blank:
                rows.append([] if part.inline is None else [BLANK])
            else:
                segment, of_segment = next(hypotheses)
                rows.append([self.candidate(hypothesis, segment) for hypothesis in of_segment])
        for i, part in enumerate(parts):
            rows[i] = self._with_edges(part, rows[i], are_draws=decode.draws)
        places = [(i, k, part.inline) for i, part in enumerate(parts) if part.inline for k in range(len(rows[i]))]
        texts = [rows[i][k].text for i, k, _ in places]
        placed = self.aligner.put_back([inline for *_, inline in places], texts)
        for (i, k, _), (text, n_placed) in zip(places, placed, strict=True):
            rows[i][k] = replace(rows[i][k], text=text, n_placed=n_placed)
        return rows

    def _with_edges(self, part: Piece, candidates: Sequence[Candidate], *, are_draws: bool) -> list[Candidate]:
        """Return a part's candidates with the marks at its edges, each still with its prefix.

        are_draws: whether two may become equal. If not, a candidate that would become equal to an earlier one stays
        unchanged.
        """
        beginning = as_one_line(self.tgt_tokenizer.decode(part.prefix)).strip() if part.prefix else ""
        with_marks = self.terminology.with_marks if self.terminology else ()
        texts: list[str] = []
        for candidate in candidates:
            edged = keep_edges(part.replaced.text, candidate.text)
            left_out = candidate.text.removeprefix(edged)
            edged += next((m for word, m in with_marks if edged.endswith(word) and left_out.startswith(m)), "")
            is_kept = edged.startswith(beginning) and (are_draws or edged not in texts)
            texts.append(edged if is_kept else candidate.text)
        return [replace(one, text=text) for one, text in zip(candidates, texts, strict=True)]

    def segment(self, piece: Piece, decode: DecodeConfig | None = None) -> Segment:
        """Return a piece that is not blank with limits, placeholders and the constraints of the terminology."""
        decode = decode or self.decode
        ids, *others = piece.ids
        max_len = int(decode.max_len_factor * len(ids)) + decode.max_len_constant
        if decode.max_len is not None:
            max_len = min(max_len, decode.max_len)
        max_len = max(max_len, len(piece.prefix)) + 1  # EOS
        if self.engine.max_positions is not None:
            max_len = min(max_len, self.engine.max_positions)
        text, values = piece.replaced.text, piece.replaced.values
        once = tuple(self.tgt_tokenizer.piece_ids(list(values)))
        terms, src_tokenizer = self.terminology, self.reader.tokenizers[0]
        return Segment(
            ids=ids,
            others=tuple(others),
            max_len=max_len,
            min_len=max(decode.min_len, int(decode.min_len_factor * len(ids))),
            prefix=piece.prefix,
            constraints=terms.constraints_for(text, src_tokenizer) if terms else None,
            text=text,
            once=once,
            never=tuple(token for token in self._reserved if token not in once),
            values=values,
            case=piece.case,
        )

    def _hypotheses(self, segments: Sequence[Segment], decode: DecodeConfig, n_best: int) -> list[list[Hypothesis]]:
        """Return the n best hypotheses of each segment, best first."""
        if self.terminology is not None:
            return TermSearch(self.engine, self.tgt_tokenizer, decode, n_best)(segments)
        hypotheses: list[list[Hypothesis]] = [[] for _ in segments]
        for index, n_best_of_segment in self.engine.decode(segments, decode, n_best):
            hypotheses[index] = n_best_of_segment
        return hypotheses

    def candidate(self, hypothesis: Hypothesis, segment: Segment) -> Candidate:
        """Return a segment's translation as text, with its placeholders."""
        text, n_moved = self.text_of(hypothesis.ids, segment), 0
        if self.reader.placeholders is not None:
            text, n_moved = restore(text, segment.values)
        return Candidate(text, hypothesis.ids, hypothesis.log_prob, hypothesis.score, hypothesis.finished, n_moved)

    def text_of(self, ids: Sequence[int], segment: Segment) -> str:
        """Return the text of a segment's translation, with tokens for the placeholders."""
        text = as_one_line(self.tgt_tokenizer.decode(ids)).strip()
        is_begun = segment.case == "small" and bool(segment.prefix)  # in the case in which the user wrote it
        capitals = self.reader.training_text.capitals if segment.case and not is_begun else None
        return capitals.like(segment.case, text) if capitals and segment.case else text

    def max_src_tokens(self, decode: DecodeConfig | None = None) -> int:
        """Return the most source tokens that are translated in one piece."""
        limit = (decode or self.decode).max_src_tokens
        positions = self.engine.max_positions
        return limit if positions is None else min(limit, positions - 1)  # EOS

    @cached_property
    def _reserved(self) -> list[int]:
        """The target tokens for placeholders; none without patterns."""
        return self.tgt_tokenizer.piece_ids(TOKENS) if self.reader.placeholders else []


def _joined(rows: Sequence[tuple[list[Candidate], str | None]]) -> list[Candidate]:
    """Return a piece's candidates from those of its parts and the white space before each; a blank part has none."""
    same = [(row, gap) for row, gap in rows if row]
    return join_candidates([row for row, _ in same], [gap for _, gap in same])

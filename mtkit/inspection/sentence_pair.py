"""A sentence in; the sentence and its translation as the model sees them, tokens and ids, out."""

from collections.abc import Sequence
from dataclasses import dataclass

from mtkit.bundle import Bundle
from mtkit.console import log
from mtkit.data.corpus import as_one_line
from mtkit.data.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from mtkit.data.tokenizer import Tokenizer
from mtkit.data.unseen_characters import UnknownCharacters
from mtkit.engines.native import NativeEngine
from mtkit.errors import DataError, MtkitError
from mtkit.translation.translator import Translator

_SPECIAL = {PAD_ID: "<pad>", UNK_ID: "<unk>", BOS_ID: "<start>", EOS_ID: "<end>"}
GIVEN, GREEDY = "given", "greedy search"


@dataclass(frozen=True)
class Tokens:
    """One side of a pair."""

    text: str
    ids: list[int]
    pieces: list[str]  # what each id stands for


@dataclass(frozen=True)
class SentencePair:
    """A source and a translation of it."""

    src: Tokens  # a tag first, if the model is asked with one; <end> last
    tgt: Tokens  # <end> last, if it is finished
    chosen_by: str  # GIVEN, GREEDY or "beam search of N"
    finished: bool  # False: the length limit ended the translation

    @property
    def tgt_in(self) -> list[int]:
        """What the decoder is given: <start>, then each token but the last."""
        return [BOS_ID, *self.tgt.ids[:-1]]


class Subject:
    """A bundle's model with its tokenizers and its engine: what is looked into. All of it on the CPU, in float32."""

    def __init__(self, bundle: Bundle) -> None:
        self.model = bundle.model.eval()
        self.engine = NativeEngine([bundle.model])
        self._translator = Translator(self.engine, bundle.src_tokenizer, bundle.tgt_tokenizer, bundle.config.decode)
        self.src_tokenizer = self._translator.src_tokenizer  # with the tag of the config's decode section
        self.tgt_tokenizer = bundle.tgt_tokenizer

    def pair(self, text: str, *, target: str | None = None, beam_size: int | None = None) -> SentencePair:
        """The sentence with a target that is given, or with the model's own translation.

        beam_size: of the search for it; 1 is greedy, None what the model's config says.
        Raises DataError if a side is blank, MtkitError if one is longer than the model translates in one piece.
        """
        src_text = as_one_line(text).strip()
        src_ids = self._encode(self.src_tokenizer, src_text, "sentence")
        if target is not None:
            tgt_text = as_one_line(target).strip()
            tgt_ids, finished, chosen_by = self._encode(self.tgt_tokenizer, tgt_text, "target"), True, GIVEN
        else:
            decode = self._translator.decode
            width = beam_size or decode.beam_size
            groups = decode.beam_groups if beam_size is None else 1
            changes = {"beam_size": width, "beam_groups": groups, "sampling": False, "mbr_samples": 0}
            [[best, *_]] = self._translator.search([src_text], decode=decode.model_copy(update=changes))
            tgt_text, tgt_ids, finished = best.text, best.ids, best.finished
            chosen_by = GREEDY if width == 1 else f"beam search of {width}"
        return SentencePair(
            _tokens(src_text, self.src_tokenizer, [*src_ids, EOS_ID]),
            _tokens(tgt_text, self.tgt_tokenizer, [*tgt_ids, EOS_ID] if finished else tgt_ids),
            chosen_by,
            finished,
        )

    def _encode(self, tokenizer: Tokenizer, text: str, what: str) -> list[int]:
        ids = tokenizer.encode(text)
        if not ids:
            raise DataError(f"the {what} is blank: there is nothing to look at; give some text")
        limit = self._translator.max_src_tokens()
        if len(ids) > limit:
            raise MtkitError(
                f"the {what} has {len(ids)} tokens, more than the {limit} that the model translates in one piece "
                "(decode.max_src_tokens, or the end of its learned positions); give a single, shorter sentence"
            )
        if UNK_ID in ids:
            characters = UnknownCharacters(tokenizer)
            characters.add(text)
            unknown = " ".join(found.text for found in characters.all() if found.treatment == "unknown")
            log.warning(f"{tokenizer.path}: no pieces for {unknown} of the {what}; the model sees <unk>")
        return ids


def named_pieces(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """What each id stands for, the special ones by the names that they have in these pages, such as <start>."""
    pieces = tokenizer.pieces(ids)
    return [_SPECIAL.get(token_id, piece) for token_id, piece in zip(ids, pieces, strict=True)]


def _tokens(text: str, tokenizer: Tokenizer, ids: list[int]) -> Tokens:
    return Tokens(text, ids, named_pieces(tokenizer, ids))

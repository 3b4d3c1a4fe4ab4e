"""Prepare a sentence and its translation for inspection, as the tokens and ids that the model sees."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from mtkit.bundle import Bundle, BundleFiles, load_network
from mtkit.console import log
from mtkit.data.labelled import joined, most_tokens_read
from mtkit.engines.native import NativeEngine
from mtkit.errors import DataError, MtkitError, UsageError
from mtkit.pair_files.lines import as_one_line
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from mtkit.tokens.tokenizer import Tokenizer
from mtkit.tokens.unseen_characters import UnknownCharacters
from mtkit.translation.translator import Translator

_SPECIAL = {PAD_ID: "<pad>", UNK_ID: "<unk>", BOS_ID: "<start>", EOS_ID: "<end>"}
GIVEN, GREEDY = "given", "greedy search"
MAX_DRAWN = 80  # tokens of a side in a picture or page that stays readable


@dataclass(frozen=True)
class Tokens:
    """One side of a pair."""

    text: str
    ids: list[int]
    pieces: list[str]  # one for each id


@dataclass(frozen=True)
class SentencePair:
    """A source and a translation of it."""

    src: Tokens  # with the tag first, if decode.tag has one, and <end> last
    tgt: Tokens  # <end> last, if it is finished
    chosen_by: str  # GIVEN, GREEDY or "beam search of N"; of a label, its probability
    finished: bool  # False: the length limit ended the translation

    @property
    def tgt_in(self) -> list[int]:
        """Return the decoder's input: <start>, then each token but the last."""
        return [BOS_ID, *self.tgt.ids[:-1]]


class Subject:
    """The model to inspect, with its tokenizers and its engine, on the CPU in float32."""

    def __init__(self, bundle: Bundle) -> None:
        self.model = bundle.model.eval()
        self.engine = NativeEngine([bundle.model])
        self._translator = Translator(self.engine, bundle.src_tokenizer, bundle.tgt_tokenizer, bundle.config.decode)
        self.src_tokenizer = self._translator.src_tokenizer  # with the tag of the config's decode section
        self.tgt_tokenizer = bundle.tgt_tokenizer

    def pair(self, text: str, *, target: str | None = None, beam_size: int | None = None) -> SentencePair:
        """Return the sentence with the given target, or with the model's translation.

        beam_size: of the search for the translation; 1 is greedy, None takes the model's config.
        Raises DataError if a side is blank, MtkitError if one is longer than the model translates in one piece.
        """
        src_text = as_one_line(text).strip()
        src_ids = self._encode(self.src_tokenizer, src_text, "sentence")
        if target is not None:
            tgt_text = as_one_line(target).strip()
            tgt_ids = self._encode(self.tgt_tokenizer, tgt_text, "target", src_text)
            finished, chosen_by = True, GIVEN
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

    def _encode(self, tokenizer: Tokenizer, text: str, what: str, src: str | None = None) -> list[int]:
        ids = tokenizer.encode(text) if src is None else tokenizer.encode_translations([text], [src])[0]
        if not ids:
            raise DataError(f"the {what} is blank: give some text")
        limit = self._translator.max_src_tokens
        if len(ids) > limit:
            raise MtkitError(
                f"the {what} has {len(ids)} tokens, more than the {limit} that the model translates in one piece "
                "(decode.max_src_tokens, or its learned positions); give a single, shorter sentence"
            )
        if UNK_ID in ids:
            characters = UnknownCharacters(tokenizer)
            characters.add(text)
            unknown = " ".join(character.text for character in characters.all() if character.treatment == "unknown")
            log.warning(f"{tokenizer.path}: no pieces for {unknown} of the {what}; the model sees <unk>")
        return ids


class ClassifierSubject:
    """The classifier to inspect, with its tokenizer, on the CPU in float32."""

    def __init__(self, files: BundleFiles) -> None:
        self.model = load_network(files)
        self.tokenizer = files.src_tokenizer
        self.labels = files.config.data.labels
        self.reads_pairs = bool(files.config.data.pairs)
        self.most_tokens = most_tokens_read(files.config)

    @torch.no_grad()
    def pair(self, text: str, target: str | None = None, label: str | None = None) -> SentencePair:
        """Return the tokens that the classifier reads, from <start> on, with a label and its probability as the
        translation.

        target: the second text, for a classifier of pairs. label: default: the likeliest. Raises UsageError if the
        texts are not as many as it reads, or for an unknown label, DataError for a blank text, MtkitError for one that
        it would cut.
        """
        if label is not None and label not in self.labels:
            raise UsageError(f"--label {label}: the classifier has no such label, but {', '.join(self.labels)}")
        if (target is not None) != self.reads_pairs:
            raise UsageError(
                "this classifier judges pairs: give the second text with --target"
                if self.reads_pairs
                else "--target: this classifier reads single texts; leave it out"
            )
        texts = [as_one_line(one).strip() for one in (text, target) if one is not None]
        encoded = [self.tokenizer.encode(one) for one in texts]
        for ids, name in zip(encoded, ("sentence", "target"), strict=False):
            if not ids:
                raise DataError(f"the {name} is blank: give some text")
            if len(ids) > self.most_tokens:
                raise MtkitError(
                    f"the {name} has {len(ids)} tokens, more than the {self.most_tokens} that the classifier reads "
                    "(decode.max_src_tokens, or its learned positions); give a shorter one"
                )
        ids = [*joined(encoded), EOS_ID]
        src = torch.tensor([ids])
        probs = self.model(src, src[:, :1])[0, 0].softmax(dim=-1)
        index = int(probs.argmax()) if label is None else self.labels.index(label)
        name = self.labels[index]
        read = Tokens(" | ".join(texts), ids, named_pieces(self.tokenizer, ids))
        return SentencePair(read, Tokens(name, [index], [name]), f"{float(probs[index]):.1%}", True)


def named_pieces(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """Return the piece of each id; special ids have the names of the documentation, such as <start>."""
    pieces = tokenizer.pieces(ids)
    return [_SPECIAL.get(token_id, piece) for token_id, piece in zip(ids, pieces, strict=True)]


def check_drawable(pair: SentencePair) -> None:
    """Raise MtkitError if a side has too many tokens for a readable picture or page."""
    for side, tokens in (("source", pair.src), ("target", pair.tgt)):
        if len(tokens.ids) > MAX_DRAWN:
            raise MtkitError(
                f"the {side} has {len(tokens.ids)} tokens, more than the {MAX_DRAWN} that fit into a readable "
                "picture; give a shorter sentence, or use --json without --output to get all figures"
            )


def _tokens(text: str, tokenizer: Tokenizer, ids: list[int]) -> Tokens:
    return Tokens(text, ids, named_pieces(tokenizer, ids))

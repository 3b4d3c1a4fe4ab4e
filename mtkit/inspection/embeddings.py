"""Find the tokens whose embeddings lie nearest to those of given words, after training and before it."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from mtkit.bundle import Bundle, find_model, load_bundle
from mtkit.data.corpus import Side
from mtkit.data.sentencepiece_file import PieceType, parse
from mtkit.data.special_ids import BOS_ID, PAD_ID
from mtkit.data.tokenizer import SPACE, Tokenizer
from mtkit.errors import DataError, MtkitError
from mtkit.model.transformer import Transformer

_TEXT_TYPES = (PieceType.NORMAL, PieceType.USER_DEFINED)  # the others are bytes and special tokens
_N_SUGGESTED = 5
# No source holds these tokens, so training leaves their vectors as they were (weight decay shortens them).
_NEVER_TRAINED = [PAD_ID, BOS_ID]
_SAME_DIRECTION = 0.9999


@dataclass(frozen=True)
class Word:
    """What was asked for, and the tokens that spell it; of several, the mean vector stands for the word."""

    text: str
    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    like: tuple[str, ...] = ()  # tokens spelt nearly so, if it is no token itself


@dataclass(frozen=True)
class Neighbour:
    """A token near to a word."""

    token: str
    id: int
    cosine: float  # of the angle between the vectors
    distance: float  # Euclidean


@dataclass(frozen=True)
class Neighbours:
    """The nearest tokens by each of the two measures, the nearest first."""

    cosine: tuple[Neighbour, ...]
    euclidean: tuple[Neighbour, ...]


class Vocabulary:
    """The tokens of one side's tokenizer that stand for text, by id and by spelling."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        pieces = parse(tokenizer.serialized()).pieces
        self.pieces = [piece.text for piece in pieces]
        self.text_ids = [number for number, piece in enumerate(pieces) if piece.type in _TEXT_TYPES]
        self._is_text = [piece.type in _TEXT_TYPES for piece in pieces]

    def word(self, text: str) -> Word:
        """The word as the tokenizer spells it where a word begins.

        Raises DataError, with tokens of like spelling, for one with characters that no token has.
        """
        ids = self.tokenizer.encode(text)
        if not ids:
            raise DataError(f"{text!r}: there is nothing to look for")
        if not all(self._is_text[token_id] for token_id in ids):
            unknown = dict.fromkeys(character for character in text if not self._has(character))
            raise DataError(
                f"{text!r}: {self.tokenizer.path.name} has no token with {', '.join(unknown) or 'its characters'}, so "
                f"the model reads bytes or an unknown token; {self._suggestion(text)}"
            )
        like = () if len(ids) == 1 else self.like(text)
        return Word(text, tuple(ids), tuple(self.tokenizer.pieces(ids)), like)

    def token(self, piece: str) -> Word:
        """The token of this very spelling, U+2581 for a space. Raises DataError with tokens of like spelling."""
        if piece not in self.pieces:
            raise DataError(f"{piece!r}: no token of {self.tokenizer.path.name}; {self._suggestion(piece)}")
        return Word(piece, (self.pieces.index(piece),), (piece,))

    def like(self, text: str) -> tuple[str, ...]:
        """Tokens spelt nearly like the text, the most like first."""
        spelt = text if SPACE in text else SPACE + text.replace(" ", SPACE)
        known = [self.pieces[token_id] for token_id in self.text_ids if self.pieces[token_id] != SPACE]
        return tuple(difflib.get_close_matches(spelt, known, n=_N_SUGGESTED, cutoff=0.6))

    def _has(self, character: str) -> bool:
        return all(self._is_text[token_id] for token_id in self.tokenizer.encode(character))

    def _suggestion(self, text: str) -> str:
        found = self.like(text)
        return f"spelt most alike: {' '.join(found)}" if found else "no token is spelt nearly like it"


@dataclass(frozen=True)
class Space:
    """One side's tokens with a vector each."""

    vocabulary: Vocabulary
    vectors: Tensor  # (V, D), as the matrix holds them: the model multiplies them by sqrt(D)

    def vector(self, word: Word) -> Tensor:
        """(D,): the token's vector, or the mean of its tokens'."""
        return self.vectors[list(word.ids)].mean(0)

    def nearest(self, word: Word, n: int) -> Neighbours:
        """The n tokens of text nearest to the word, its own left out; all of them are looked at.

        A vector of zeros has no direction: it is near to none, and none is near to it.
        """
        query = self.vector(word)
        if not query.any():
            return Neighbours((), ())
        has_direction = self.vectors.any(1).tolist()
        ids = [i for i in self.vocabulary.text_ids if i not in word.ids and has_direction[i]]
        others = self.vectors[ids]
        cosines = F.cosine_similarity(others, query[None])
        distances = torch.linalg.vector_norm(others - query, dim=1)
        by_cosine = torch.sort(cosines, descending=True, stable=True).indices[:n].tolist()
        by_distance = torch.sort(distances, stable=True).indices[:n].tolist()

        def neighbours(places: list[int]) -> tuple[Neighbour, ...]:
            return tuple(
                Neighbour(self.vocabulary.pieces[ids[i]], ids[i], float(cosines[i]), float(distances[i]))
                for i in places
            )

        return Neighbours(neighbours(by_cosine), neighbours(by_distance))


@dataclass(frozen=True)
class View:
    """The vectors of one side as they are, as they were, or the difference."""

    name: str
    space: Space


TRAINED, BEFORE, CHANGE = "trained", "before training", "change by training"


@dataclass(frozen=True)
class Views:
    """One side's vectors after training; where it is known what they were before, those, and what training added."""

    vocabulary: Vocabulary
    views: tuple[View, ...]  # TRAINED first
    origin: str  # of those before: see Beginning


def views_of(bundle: Bundle, side: Side) -> Views:
    """The embeddings of the side's tokens: the encoder's, or those that the decoder reads."""
    vocabulary = Vocabulary(bundle.src_tokenizer if side == "src" else bundle.tgt_tokenizer)
    begun = beginning_of(bundle)
    after = _vectors(bundle.model, side)
    vectors = {TRAINED: after}
    if begun.model is not None:
        before = _vectors(begun.model, side)
        vectors |= {BEFORE: before, CHANGE: after - before}
    return Views(vocabulary, tuple(View(name, Space(vocabulary, v)) for name, v in vectors.items()), begun.origin)


def _vectors(model: Transformer, side: Side) -> Tensor:
    return (model.src_embedding if side == "src" else model.tgt_embedding).weight.detach()


@dataclass(frozen=True)
class NearestOfWord:
    """A word with its neighbours in each view, by the view's name."""

    word: Word
    views: dict[str, Neighbours]


def nearest_of(views: Views, words: Sequence[Word], n: int) -> list[NearestOfWord]:
    """The n nearest tokens of each word, in each view."""
    return [NearestOfWord(word, {view.name: view.space.nearest(word, n) for view in views.views}) for word in words]


@dataclass(frozen=True)
class Beginning:
    """The model as it was before the first update, if that can be known."""

    model: Transformer | None
    origin: str  # where its weights come from, or why they are not known


def beginning_of(bundle: Bundle) -> Beginning:
    """The initial weights of the bundle's run: those of train.init_from, else those that its seed draws.

    Another version of torch or mtkit may draw others from the same seed, and the folder in train.init_from may hold
    another model by now: source vectors that training never moves tell, where source and target do not share theirs.
    """
    cfg, training = bundle.config, bundle.manifest.get("training", {})
    if "imported" in training:
        return Beginning(None, "the model was imported: the weights that its training began with are not in it")
    if "averaged_models" in training:
        return Beginning(None, "the model is the mean of several models, which began with weights of their own")
    if cfg.train.init_from is not None:
        try:
            origin = load_bundle(find_model(cfg.train.init_from))
        except MtkitError as error:
            return Beginning(None, f"training began with the weights of train.init_from, which cannot be read: {error}")
        begun, source = origin.model, f"the weights of train.init_from={cfg.train.init_from}"
    else:
        begun, source = drawn_model(bundle), f"the weights drawn from seed={cfg.seed}"
    if not _may_have_become(begun, bundle.model):
        return Beginning(None, f"{source} are not those that this training began with (tokens never seen differ)")
    return Beginning(begun, source)


def drawn_model(bundle: Bundle) -> Transformer:
    """A model with the weights that a run with this config and seed draws before its first update."""
    sizes = bundle.src_tokenizer.vocab_size, bundle.tgt_tokenizer.vocab_size
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(bundle.config.seed)
        return Transformer(bundle.config.model, *sizes, PAD_ID).eval()


def _may_have_become(begun: Transformer, trained: Transformer) -> bool:
    before, after = begun.src_embedding.weight, trained.src_embedding.weight
    if before.shape != after.shape:
        return False
    if trained.cfg.tie == "all":
        return True  # every vector is also an output's, and each update moves all of those
    before, after = before[_NEVER_TRAINED], after[_NEVER_TRAINED]
    is_equal = (before == after).all(1)  # vectors of zeros, as imported models may have them, point nowhere
    return bool((is_equal | (F.cosine_similarity(before, after) > _SAME_DIRECTION)).all())

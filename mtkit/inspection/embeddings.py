"""Find the tokens whose embeddings lie nearest to those of given words, after training and before it."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from mtkit.alignment.lexicon import alignment_lexicon, start_from
from mtkit.bundle import LEXICON_START, Bundle, find_model, load_bundle
from mtkit.errors import DataError, MtkitError
from mtkit.languages import Side
from mtkit.model.transformer import Transformer
from mtkit.tokens.sentencepiece_file import PieceType, parse
from mtkit.tokens.special_ids import BOS_ID, PAD_ID
from mtkit.tokens.tokenizer import SPACE, Tokenizer

_TEXT_TYPES = (PieceType.NORMAL, PieceType.USER_DEFINED)  # the others are bytes and special tokens
_N_SUGGESTED = 5
# No source contains these tokens, so training keeps the direction of their vectors (weight decay shortens them).
_NEVER_TRAINED = [PAD_ID, BOS_ID]
_SAME_DIRECTION = 0.9999


@dataclass(frozen=True)
class Word:
    """A word and the tokens that spell it; the mean of their vectors represents it."""

    text: str
    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    like: tuple[str, ...] = ()  # tokens of similar spelling, if the word is not a single token


@dataclass(frozen=True)
class Neighbour:
    """A token near a word."""

    token: str
    id: int
    cosine: float  # of the angle between the vectors
    distance: float  # Euclidean


@dataclass(frozen=True)
class Neighbours:
    """The nearest tokens by each measure, nearest first."""

    cosine: tuple[Neighbour, ...]
    euclidean: tuple[Neighbour, ...]


class Vocabulary:
    """The tokens of one side's tokenizer, by id and by spelling; bytes and special tokens are not text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        pieces = parse(tokenizer.serialized()).pieces
        self.pieces = [piece.text for piece in pieces]
        self._is_text = [piece.type in _TEXT_TYPES for piece in pieces]
        self.text_ids = [token_id for token_id, is_text in enumerate(self._is_text) if is_text]

    def word(self, text: str) -> Word:
        """Return the word as the tokenizer spells it at the start of a word.

        Raises DataError, which suggests tokens of similar spelling, if no token has one of its characters.
        """
        ids = self.tokenizer.encode(text)
        if not ids:
            raise DataError(f"{text!r} is blank: give a word")
        if not all(self._is_text[token_id] for token_id in ids):
            unknown = dict.fromkeys(character for character in text if not self._has(character))
            raise DataError(
                f"{text!r}: {self.tokenizer.path.name} has no token with {', '.join(unknown) or 'its characters'}, so "
                f"the model reads bytes or <unk>; {self._suggestion(text)}"
            )
        like = () if len(ids) == 1 else self.like(text)
        return Word(text, tuple(ids), tuple(self.tokenizer.pieces(ids)), like)

    def token(self, piece: str) -> Word:
        """Return the token with exactly this spelling, U+2581 for a space.

        Raises DataError, which suggests tokens of similar spelling, if there is none.
        """
        if piece not in self.pieces:
            raise DataError(f"{piece!r} is not a token of {self.tokenizer.path.name}; {self._suggestion(piece)}")
        return Word(piece, (self.pieces.index(piece),), (piece,))

    def like(self, text: str) -> tuple[str, ...]:
        """Return tokens of similar spelling, the most similar first."""
        piece = text if SPACE in text else SPACE + text.replace(" ", SPACE)
        known = [self.pieces[token_id] for token_id in self.text_ids if self.pieces[token_id] != SPACE]
        return tuple(difflib.get_close_matches(piece, known, n=_N_SUGGESTED, cutoff=0.6))

    def _has(self, character: str) -> bool:
        return all(self._is_text[token_id] for token_id in self.tokenizer.encode(character))

    def _suggestion(self, text: str) -> str:
        similar = self.like(text)
        return f"similar tokens: {' '.join(similar)}" if similar else "no token is similar"


@dataclass(frozen=True)
class Space:
    """One side's tokens and their vectors."""

    vocabulary: Vocabulary
    vectors: Tensor  # (V, D), the embedding matrix: the model multiplies it by sqrt(D)

    def vector(self, word: Word) -> Tensor:
        """Return the mean vector (D,) of the word's tokens."""
        return self.vectors[list(word.ids)].mean(0)

    def nearest(self, word: Word, n: int) -> Neighbours:
        """Return the n text tokens nearest to the word, without its own, by exhaustive search.

        A vector of zeros has no direction: it has no neighbours and is never one.
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

        def neighbours(indices: list[int]) -> tuple[Neighbour, ...]:
            return tuple(
                Neighbour(self.vocabulary.pieces[ids[i]], ids[i], float(cosines[i]), float(distances[i]))
                for i in indices
            )

        return Neighbours(neighbours(by_cosine), neighbours(by_distance))


@dataclass(frozen=True)
class View:
    """One side's vectors after training, before training, or the difference."""

    name: str
    space: Space


TRAINED, BEFORE, CHANGE = "trained", "before training", "change by training"


@dataclass(frozen=True)
class Views:
    """One side's vectors after training and, where they are known, those before training and the change."""

    vocabulary: Vocabulary
    views: tuple[View, ...]  # TRAINED first
    origin: str  # see InitialModel


def views_of(bundle: Bundle, side: Side) -> Views:
    """Return the side's embeddings: src, which the encoder reads, or tgt, which the decoder reads."""
    vocabulary = Vocabulary(bundle.src_tokenizer if side == "src" else bundle.tgt_tokenizer)
    initial = initial_model(bundle)
    after = _vectors(bundle.model, side)
    vectors = {TRAINED: after}
    if initial.model is not None:
        before = _vectors(initial.model, side)
        vectors |= {BEFORE: before, CHANGE: after - before}
    return Views(vocabulary, tuple(View(name, Space(vocabulary, v)) for name, v in vectors.items()), initial.origin)


def _vectors(model: Transformer, side: Side) -> Tensor:
    return (model.src_embedding if side == "src" else model.tgt_embedding).weight.detach()


@dataclass(frozen=True)
class NearestOfWord:
    """A word and its neighbours, by the name of the view."""

    word: Word
    views: dict[str, Neighbours]


def nearest_of(views: Views, words: Sequence[Word], n: int) -> list[NearestOfWord]:
    """Return the n nearest tokens of each word in each view."""
    return [NearestOfWord(word, {view.name: view.space.nearest(word, n) for view in views.views}) for word in words]


@dataclass(frozen=True)
class InitialModel:
    """The model before its first update, if its weights are known."""

    model: Transformer | None
    origin: str  # where its weights come from, or why they are not known


def initial_model(bundle: Bundle) -> InitialModel:
    """Return the model that the bundle's run began with: that of train.init_from, or one drawn from its seed.

    Another version of torch or mtkit may draw other weights from the same seed, and the folder in train.init_from may
    hold another model by now. Source vectors that training never moves show that, unless source and target share them.
    """
    cfg, training = bundle.config, bundle.manifest.get("training", {})
    if "imported" in training:
        return InitialModel(None, "the model was imported without its initial weights")
    if "averaged_models" in training:
        return InitialModel(None, "the model is the mean of several models, each with its own initial weights")
    if cfg.train.init_from is not None:
        try:
            origin = load_bundle(find_model(cfg.train.init_from))
        except MtkitError as error:
            return InitialModel(None, f"the weights of train.init_from cannot be read: {error}")
        model, source = origin.model, f"the weights of train.init_from={cfg.train.init_from}"
    else:
        with_lexicon = ", with the lexicon's translations" if training.get(LEXICON_START) else ""
        model, source = drawn_model(bundle), f"the weights drawn from seed={cfg.seed}{with_lexicon}"
    if not _may_have_become(model, bundle.model):
        return InitialModel(None, f"{source} are not the initial weights (the vectors of untrained tokens differ)")
    return InitialModel(model, source)


def drawn_model(bundle: Bundle) -> Transformer:
    """Return a model with the weights that the bundle's run began with, by its seed and its lexicon."""
    sizes = bundle.src_tokenizer.vocab_size, bundle.tgt_tokenizer.vocab_size
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(bundle.config.seed)
        model = Transformer(bundle.config.model, *sizes, PAD_ID).eval()
        if bundle.manifest.get("training", {}).get(LEXICON_START) and (lexicon := alignment_lexicon(bundle)):
            start_from(lexicon, model)
        return model


def _may_have_become(initial: Transformer, trained: Transformer) -> bool:
    before, after = initial.src_embedding.weight, trained.src_embedding.weight
    if before.shape != after.shape:
        return False
    if trained.cfg.tie == "all":
        return True  # every vector is an output vector, too, and each update moves all of those
    before, after = before[_NEVER_TRAINED], after[_NEVER_TRAINED]
    is_equal = (before == after).all(1)  # the cosine of zero vectors, which imported models may have, is 0
    return bool((is_equal | (F.cosine_similarity(before, after) > _SAME_DIRECTION)).all())

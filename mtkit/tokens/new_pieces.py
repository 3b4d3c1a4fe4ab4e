"""Learn pieces that a tokenizer lacks from text that it cuts into many, and add them to its model.

New pieces are merges of neighbouring old ones, the most frequent first, as in the training of BPE (Sennrich et al.
2016). They join letters of one word. Characters that the tokenizer spells in bytes, or does not know, come first.
"""

import unicodedata
from collections import ChainMap, Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise

from mtkit.errors import DataError
from mtkit.tokens.sentencepiece_file import Piece, PieceType, SentencePieceModel, parse
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from mtkit.tokens.tokenizer import SPACE, Tokenizer

_LEAST = 5  # occurrences in the text: a piece that is seen less often learns little
_LONGEST = 16  # characters, as in SentencePiece's own training
_GAIN = 0.1  # nats by which a new piece of a unigram model is likelier than its parts together
_MERGING = ("unigram", "bpe")

_Symbol = tuple[str, tuple[int, ...]]  # text, with the ids that the tokenizer writes it with
_Pair = tuple[str, str]


@dataclass(frozen=True)
class NewPiece:
    """A piece to add: its text, the two texts it is merged from ("" for a single character), and its old ids."""

    text: str
    parts: _Pair
    old_ids: tuple[int, ...]


def can_have_more(tokenizer: Tokenizer) -> bool:
    """Return whether a tokenizer builds pieces from smaller ones, and so can get new ones."""
    return parse(tokenizer.serialized()).algorithm in _MERGING


def learn_pieces(tokenizer: Tokenizer, texts: Iterable[str], most: int) -> list[NewPiece]:
    """Return up to `most` new pieces in the order in which they were merged.

    Raises DataError for a tokenizer that does not build pieces from smaller ones.
    """
    model = parse(tokenizer.serialized())
    if model.algorithm not in _MERGING:
        raise DataError(
            f"{tokenizer.path}: a tokenizer of type {model.algorithm} cannot get new pieces; only "
            f"{' or '.join(_MERGING)} can"
        )
    words: Counter[tuple[_Symbol, ...]] = Counter()
    for text in texts:
        words.update(_words(tokenizer.surfaces(text)))
    known = {piece.text for piece in model.pieces}
    characters = Counter[_Symbol]()
    for word, count in words.items():
        for symbol in word:
            if symbol[0] not in known:
                characters[symbol] += count
    common = [symbol for symbol, count in characters.most_common() if count >= _LEAST and _is_visible(symbol[0])][:most]
    pieces = [NewPiece(text, ("", ""), ids) for text, ids in common]
    usable = {piece.text for piece in model.pieces if piece.type is PieceType.NORMAL} | {text for text, _ in common}
    return pieces + list(_merges(words, usable, known, most - len(pieces)))


def _words(surfaces: Iterable[tuple[str, int]]) -> Iterator[tuple[_Symbol, ...]]:
    """Yield the words of a text as symbols: pieces, and characters that several ids spell."""
    word: list[_Symbol] = []
    spelled = b""
    ids: tuple[int, ...] = ()
    for text, token_id in surfaces:
        if text.startswith(SPACE) and word:
            yield tuple(word)
            word = []
        if text.startswith("<0x") and len(text) == 6:
            spelled, ids = spelled + bytes([int(text[3:5], 16)]), (*ids, token_id)
            try:
                text = spelled.decode("utf-8")
            except UnicodeDecodeError:
                continue
            word.append((text, ids))
            spelled, ids = b"", ()
        elif token_id == UNK_ID:
            word += [(character, (UNK_ID,)) for character in text]
        else:
            word.append((text, (token_id,)))
    if word:
        yield tuple(word)


def _merges(
    words: Mapping[tuple[_Symbol, ...], int], usable: set[str], known: set[str], most: int
) -> Iterator[NewPiece]:
    """Yield merges of neighbours. usable: texts of pieces to merge. known: texts that are pieces, and need no merge."""
    spelled = [list(word) for word in words]
    counts = [*words.values()]
    pairs = Counter[_Pair]()
    places: dict[_Pair, set[int]] = defaultdict(set)
    queue: list[tuple[int, _Pair]] = []  # the most frequent first; a count in it may be out of date
    taken: set[str] = set()

    def count(index: int, sign: int) -> None:
        word = spelled[index]
        for (one, _), (other, _) in pairwise(word):
            if one in usable and other in usable and _is_of_letters(one + other) and one + other not in known:
                pair = one, other
                pairs[pair] += sign * counts[index]
                places[pair].add(index)
                if sign > 0:
                    heappush(queue, (-pairs[pair], pair))

    for index in range(len(spelled)):
        count(index, 1)
    while queue and len(taken) < most:
        n, pair = heappop(queue)
        if pairs[pair] != -n:
            if pairs[pair] >= _LEAST:
                heappush(queue, (-pairs[pair], pair))
            continue
        if -n < _LEAST:
            return
        merged = "".join(pair)
        old_ids: tuple[int, ...] = ()
        usable.add(merged)
        for index in sorted(places.pop(pair)):
            count(index, -1)
            spelled[index], ids = _merged(spelled[index], pair)
            old_ids = old_ids or ids
            count(index, 1)
        if merged not in taken:  # the same text can come from two pairs
            taken.add(merged)
            yield NewPiece(merged, pair, old_ids)


def _merged(word: Sequence[_Symbol], pair: _Pair) -> tuple[list[_Symbol], tuple[int, ...]]:
    """Join each occurrence of the pair, from the left; return the word and the ids of the joined symbol."""
    joined: list[_Symbol] = []
    ids: tuple[int, ...] = ()
    for symbol in word:
        if joined and (joined[-1][0], symbol[0]) == pair:
            ids = (*joined.pop()[1], *symbol[1])
            symbol = "".join(pair), ids
        joined.append(symbol)
    return joined, ids


def _is_visible(character: str) -> bool:
    return unicodedata.category(character[0])[0] not in "CZ"


def _is_of_letters(text: str) -> bool:
    bare = text.removeprefix(SPACE)
    return 0 < len(bare) <= _LONGEST and all(unicodedata.category(character)[0] in "LM" for character in bare)


def with_new_pieces(model: bytes, added: Sequence[str], used: Sequence[NewPiece]) -> bytes:
    """Return a model with more pieces at the end.

    added: their texts, in the order of their ids. used: those that cut text, in the order in which they were learned;
    the others never match. Text that no new piece matches is cut as before.
    """
    parsed = parse(model)
    scores = _scores(parsed, used)
    pieces = [Piece(text, scores[text]) if text in scores else Piece(text, type=PieceType.UNUSED) for text in added]
    special = {"pad": PAD_ID, "unk": UNK_ID, "bos": BOS_ID, "eos": EOS_ID}
    return parsed.with_pieces([*parsed.pieces, *pieces], special).serialize()


def _scores(model: SentencePieceModel, used: Sequence[NewPiece]) -> dict[str, float]:
    """Return the scores of new pieces: BPE merges them last, and a unigram model prefers them to their parts."""
    old = {piece.text: piece.score for piece in model.pieces if piece.type is PieceType.NORMAL}
    lowest = min(old.values())
    if model.algorithm == "bpe":
        return {piece.text: lowest - rank for rank, piece in enumerate(used, start=1)}
    scores: dict[str, float] = {}
    known = ChainMap(old, scores)
    for piece in used:
        both = sum(known.get(part, lowest) for part in piece.parts)
        scores[piece.text] = max(
            lowest, both + _GAIN
        )  # not lower: the rarest piece sets the score of unknown characters
    return scores

"""Encode labelled text: each example as the ids that a classifier reads, and its label as its target."""

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mtkit.config.data import CorpusFiles
from mtkit.config.schema import Config
from mtkit.data.encoded import EncodedCorpus, Labels, Words
from mtkit.data.encoding import Chunk, id_dtype, in_chunks, lengths_of
from mtkit.data.examples import Labelling, label_id, label_ids, read_examples
from mtkit.files import sha256_file
from mtkit.tokens.special_ids import BOS_ID, EOS_ID
from mtkit.tokens.tokenizer import Tokenizer

EXAMPLES = Words("example", "with a blank text", "example")


def joined(texts: Sequence[Sequence[int]]) -> list[int]:
    """Return the ids that a classifier reads, without the last <end>: <start> text, or <start> source <end> target.

    <end> also divides a pair, because no text contains it and every tokenizer has it, including a translator's.
    """
    first, *others = texts
    return [BOS_ID, *first, *(token for text in others for token in (EOS_ID, *text))]


def longest_text(cfg: Config) -> int | None:
    """Return how many tokens fit into the positions for each text of an example; None: any number."""
    if cfg.model.positions != "learned":
        return None
    return (cfg.model.max_positions - 1) // (2 if cfg.data.pairs else 1) - 1  # <start>, and after each text <end>


def most_tokens_read(cfg: Config) -> int:
    """Return how many tokens of each text a trained classifier reads."""
    longest = longest_text(cfg)
    return cfg.decode.max_src_tokens if longest is None else min(cfg.decode.max_src_tokens, longest)


class LabelledCorpus(EncodedCorpus):
    """Examples as token ids, with labels as targets."""

    tgt_kind = Labels
    words = EXAMPLES


class LabelEncoding:
    """An encoding of labelled text with one tokenizer. Satisfies `Encoding`."""

    words = EXAMPLES

    def __init__(self, tokenizer: Tokenizer, labelling: Labelling, max_tokens: int | None) -> None:
        """max_tokens: leave out examples with a longer text; None: no limit."""
        self.tokenizer = tokenizer
        self.labelling = labelling
        self.max_tokens = max_tokens
        self.dtypes = {"src": id_dtype(tokenizer.vocab_size), "tgt": np.dtype(np.uint16)}

    def recipe(self, corpora: Sequence[CorpusFiles]) -> dict[str, Any]:
        """See Encoding."""
        return {
            "tokenizers": [sha256_file(self.tokenizer.path)],
            "labels": list(self.labelling.labels),
            "texts": self.labelling.n_texts,
            "filters": [self.max_tokens],
        }

    def chunks(self, corpus: CorpusFiles) -> Generator[Chunk, None, None]:
        """See Encoding. Raises DataError for a label that is not one of the labelling's."""
        ids = label_ids(self.labelling)
        examples = read_examples([corpus], self.labelling.n_texts)
        for chunk in in_chunks(examples, lambda example: sum(map(len, example.texts))):
            labels = [label_id(example, ids) for example in chunk]
            columns = [self.tokenizer.encode_batch(column) for column in zip(*(e.texts for e in chunk), strict=True)]
            lengths = np.stack([lengths_of(column) for column in columns])
            is_blank = lengths.min(axis=0) == 0
            is_long = ~is_blank & (lengths.max(axis=0) > (self.max_tokens or np.inf))
            kept = np.flatnonzero(~is_blank & ~is_long).tolist()
            counts = {"n_blank": int(is_blank.sum()), "n_too_long": int(is_long.sum()), "n_kept": len(kept)}
            src = [joined([column[index] for column in columns]) for index in kept]
            yield Chunk([example.line for example in chunk], kept, src, [[labels[index]] for index in kept], counts)

    def open(self, folder: Path, files: Sequence[str], fingerprint: str) -> LabelledCorpus:
        """See Encoding."""
        return LabelledCorpus(folder, files, fingerprint)

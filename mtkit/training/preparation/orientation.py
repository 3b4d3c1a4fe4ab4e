"""Detect source and target files that are swapped in a config."""

from collections.abc import Iterator

from mtkit.config.data import CorpusFiles
from mtkit.config.schema import Config
from mtkit.data.corpus import corpus_name, read_side
from mtkit.data.encoded import EncodedCorpus, EncodedSide
from mtkit.data.sides import Resemblance, Sides
from mtkit.errors import ConfigError, DataError
from mtkit.languages import are_one_language, language_in_name
from mtkit.tokens.tokenizer import Tokenizer

_MARGIN = 20  # words


def check_file_names(cfg: Config) -> None:
    """Raise ConfigError if a corpus has file extensions of the config's two languages in the wrong order."""
    data = cfg.data
    src_lang, tgt_lang = data.src_lang, data.tgt_lang
    for key, corpus in _untagged(cfg):
        if corpus.src is None or corpus.tgt is None or are_one_language(src_lang, tgt_lang):
            continue
        named = language_in_name(corpus.src) or "", language_in_name(corpus.tgt) or ""
        if are_one_language(named[0], tgt_lang) and are_one_language(named[1], src_lang):
            raise ConfigError(
                f"{key}: src={corpus.src} and tgt={corpus.tgt} are swapped: this config translates from {src_lang} "
                f"into {tgt_lang}; exchange the two files, or correct data.src_lang and data.tgt_lang"
            )


def check_texts(cfg: Config, tokenizers: tuple[Tokenizer, Tokenizer], train: EncodedCorpus) -> None:
    """Raise DataError if the two languages of a corpus are swapped, compared with the first corpus of data.train."""
    n = train.sizes[0]
    first = (EncodedSide(s.ids[: s.starts[n]], s.starts[: n + 1], s.lengths[:n]) for s in (train.src, train.tgt))
    counts = (side.occurrences(t.vocab_size) for side, t in zip(first, tokenizers, strict=True))
    sides = Sides.from_counts(*tokenizers, *counts)
    for key, corpus in _untagged(cfg):
        if corpus is cfg.data.test:  # only `mtkit evaluate` reads it
            continue
        src, tgt = (Resemblance(sides).add(read_side([corpus], side)) for side in ("src", "tgt"))
        if src.verdict(_MARGIN) == "tgt" and tgt.verdict(_MARGIN) == "src":
            raise DataError(
                f"{key}: its sides are swapped, compared with data.train.0: {src.n_tgt:,} of "
                f"{src.n_src + src.n_tgt:,} words of {corpus_name(corpus)} are likelier on the target side there; "
                "exchange its src and tgt, or those of data.train.0"
            )


def _untagged(cfg: Config) -> Iterator[tuple[str, CorpusFiles]]:
    """Yield each corpus without a tag, with its key; a tag may mark another direction."""
    data = cfg.data
    corpora: list[tuple[str, CorpusFiles]] = [(f"data.train.{i}", corpus) for i, corpus in enumerate(data.train)]
    corpora += ((corpus.key, corpus) for corpus in data.dev)
    if data.test is not None:
        corpora.append(("data.test", data.test))
    yield from ((key, corpus) for key, corpus in corpora if corpus.tag is None)

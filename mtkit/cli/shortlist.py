"""`mtkit shortlist`: parallel text in; which target tokens may translate a sentence, into the bundle."""

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import ModelOption
from mtkit.errors import UsageError


def shortlist(
    model: ModelOption = None,
    first: Annotated[int, typer.Option(min=1, help="The most frequent target tokens, for every sentence.")] = 100,
    best: Annotated[int, typer.Option(min=1, help="The likeliest target tokens, for each source token.")] = 100,
    src: Annotated[Path | None, typer.Option(help="Text to learn from; default: data.train of the config.")] = None,
    tgt: Annotated[Path | None, typer.Option(help="Its translations, line by line.")] = None,
) -> None:
    """Learn which target tokens translate which source tokens, so that decoding chooses among few (IBM model 1).

    Kept in the bundle as shortlist.npz; `mtkit translate --set decode.shortlist=true` then uses it. Faster, the more
    so with a large vocabulary; a translation that needs a token outside its list comes out differently.
    """
    if (src is None) != (tgt is None):
        raise UsageError("give both --src and --tgt, or neither for the training text of the model's config")

    from mtkit.bundle import add_to_bundle, find_model, read_bundle
    from mtkit.cli.translating import with_bar  # these: for a quick `mtkit --help`
    from mtkit.config.schema import CorpusFiles
    from mtkit.console import log
    from mtkit.data.corpus import count_pairs, read_pairs, require_files
    from mtkit.engines.lexicon import learn_shortlist
    from mtkit.engines.shortlist import SHORTLIST

    folder = find_model(model)
    files = read_bundle(folder)
    corpora = [CorpusFiles(src=src, tgt=tgt)] if src else files.config.data.train
    if src is None:
        require_files("data.train", corpora, config=folder / "config.yaml", remedy="give --src and --tgt")
    n_pairs = count_pairs(corpora)
    pairs = with_bar(read_pairs(corpora), n_pairs, "reading", "pair")
    made = learn_shortlist(pairs, n_pairs, files.src_tokenizer, files.tgt_tokenizer, n_first=first, n_best=best)
    add_to_bundle(folder, SHORTLIST, made.save)
    mean = made.best.size / made.src_vocab_size
    log.info(
        f"{folder / SHORTLIST}: {made.always.size} target tokens for every sentence, {mean:.1f} more for a "
        f"source token on average, of {int(made.tgt_vocab_size):,}; use it with --set decode.shortlist=true"
    )

"""`mtkit shortlist`: learn the target tokens of each source token from parallel text, and store them in the bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.models import with_bar
from mtkit.cli.options import TEXT, ModelOption
from mtkit.config.data import CorpusFiles
from mtkit.console import log
from mtkit.errors import UsageError


def add_shortlist(
    model: ModelOption = None,
    first: Annotated[int, typer.Option(min=1, help="Allow the N most frequent target tokens in every sentence.")] = 100,
    best: Annotated[int, typer.Option(min=1, help="Allow the N likeliest target tokens for each source token.")] = 100,
    src: Annotated[
        Path | None, typer.Option(rich_help_panel=TEXT, help="Text to learn from. Default: data.train of the config.")
    ] = None,
    tgt: Annotated[Path | None, typer.Option(rich_help_panel=TEXT, help="Translations of --src, line by line.")] = None,
) -> None:
    """Learn which target tokens translate which source tokens (IBM model 1), so that decoding has fewer candidates.

    The command stores the result in the bundle as shortlist.npz; `mtkit translate --set decode.shortlist=true` uses it.
    It saves more time if the vocabulary is large. A translation that would need a token outside its list changes.
    """
    from mtkit import bundle
    from mtkit.data import corpus
    from mtkit.engines import lexicon, shortlist

    if (src is None) != (tgt is None):
        raise UsageError("give both --src and --tgt, or neither for the training text of the model's config")

    folder = bundle.find_model(model)
    files = bundle.read_bundle(folder)
    corpora = [CorpusFiles(src=src, tgt=tgt)] if src else files.config.data.train
    if src is None:
        corpus.require_files("data.train", corpora, config=folder / "config.yaml", remedy="give --src and --tgt")
    n_pairs = corpus.count_pairs(corpora)
    pairs = with_bar(corpus.read_pairs(corpora), n_pairs, "reading", "pair")
    made = lexicon.learn_shortlist(pairs, n_pairs, files.src_tokenizer, files.tgt_tokenizer, n_first=first, n_best=best)
    bundle.add_to_bundle(files, shortlist.SHORTLIST, made.save)
    mean = made.best.size / made.src_vocab_size
    log.info(
        f"{folder / shortlist.SHORTLIST}: {made.always.size} target tokens for every sentence, on average {mean:.1f} "
        f"more for a source token, out of {int(made.tgt_vocab_size):,}; use it with --set decode.shortlist=true"
    )

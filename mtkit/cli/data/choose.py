"""`mtkit data choose`: make training pairs from candidate translations of another system."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from mtkit.cli.data.shared import LangsOption
from mtkit.cli.options import output_option
from mtkit.errors import UsageError


def choose(
    candidates: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Lines of source, tab, candidate, tab, candidate, ..., or of source, candidate, score, candidate, "
            "score, ...; or JSON lines (.jsonl) with src and candidates, such as those of mtkit translate --n-best. "
            "May end in .gz, .xz or .zst.",
        ),
    ],
    output: Annotated[Path, output_option(help="Write the corpus: source, tab, target; may end in .gz, .xz or .zst.")],
    by: Annotated[
        Literal["score", "bleu", "chrf"],
        typer.Option(
            help="Take the candidate with the highest score (without scores, the first one), or the one most similar "
            "to a reference."
        ),
    ] = "score",
    references: Annotated[
        list[Path] | None,
        typer.Option(
            "--reference",
            metavar="CORPUS",
            help="With --by bleu or chrf: a corpus with the same sources, or a config, of which the command reads "
            "data.train; repeat for several.",
        ),
    ] = None,
    n_best: Annotated[int, typer.Option(min=1, help="Take up to N candidates of each source.")] = 1,
    langs: LangsOption = None,
    rejected: Annotated[
        Path | None,
        output_option(
            "--rejected", help="List the sources that the command leaves out: number, reason, source, candidate."
        ),
    ] = None,
    keep_suspect: Annotated[
        bool, typer.Option("--keep-suspect", help="Keep candidates that look broken (looping, copied, cut short).")
    ] = False,
) -> None:
    """Choose among the translations that any other system has written, and make training pairs of them.

    The command leaves out and counts translations that look broken. It prints the entry for data.train.
    """
    from mtkit.augmentation import back_translation
    from mtkit.augmentation import candidates as candidate_files
    from mtkit.config.data import TrainCorpus
    from mtkit.corpora.cleaning import sources

    if (by != "score") != bool(references):
        raise UsageError(f"--by {by} {'uses no' if references else 'needs'} --reference CORPUS")
    corpora, languages = sources.find_corpora(references or [], langs) if references or langs else ([], None)
    sources.require_regular_files(corpora)
    corpus = TrainCorpus(tsv=output.absolute())
    inputs = [*candidates, *(references or []), *(path for one in corpora for path in one.paths)]
    back_translation.check_paths(inputs, corpus, rejected)
    chooser = candidate_files.Chooser(by, n_best, languages[1] if languages else None, keep_suspect=keep_suspect)
    chosen = candidate_files.choose_candidates(candidates, corpora, chooser)
    back_translation.write_corpus(chosen, corpus, back_translation.Synthesis("forward", n_best, rejected=rejected))
    print(back_translation.as_entries([corpus]), end="")

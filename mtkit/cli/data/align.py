"""`mtkit data align`: make sentence pairs from two documents that translate each other."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.data.shared import LangsOption, OutputsOption, plain_text
from mtkit.cli.models import load_translator, with_bar
from mtkit.cli.options import file_named
from mtkit.console import counted, log
from mtkit.errors import DataError


def align(
    src: Annotated[
        Path,
        typer.Argument(
            metavar="SRC", callback=plain_text, help="Plain text with one sentence or one paragraph per line."
        ),
    ],
    tgt: Annotated[Path, typer.Argument(metavar="TGT", help="Its translation.")],
    output: OutputsOption,
    details: Annotated[
        bool,
        typer.Option(
            "--details", help="Add two columns to a .tsv output: the kind of pair, such as 2-1, and its score."
        ),
    ] = False,
    aside: Annotated[
        Path | None,
        typer.Option(
            callback=file_named(),
            help="Write the sentences without a partner to this TSV file: file, number of the sentence (from 1), text.",
        ),
    ] = None,
    langs: LangsOption = None,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Run or bundle that translates SRC, to compare TGT with its translations."),
    ] = None,
) -> None:
    """Make sentence pairs from two documents that translate each other, but not line by line.

    The command splits lines into sentences and pairs one or two sentences with one or two others, in order. It uses
    their lengths (Gale and Church), words with similar spelling and a lexicon that it learns from the documents. It
    leaves out and counts sentences without a translation, and finds parts that have moved to another place in the other
    document. The score of a pair is in nats. Below 0, the words alone do not suggest a translation; this is common for
    short headings, so check such pairs before you drop them.
    """
    from mtkit import bundle
    from mtkit.corpora.alignment import document_pairs as documents
    from mtkit.corpora.cleaning import sources
    from mtkit.pair_files import corpus_files

    sources.check_text_files(src, tgt)
    languages = sources.languages_of(src, tgt, langs)
    corpus_files.check_outputs(output, languages)
    corpus_files.check_distinct([*(("--output", path) for path in output), ("--aside", aside)], [src, tgt])
    documents.check_details(output, details)
    sides = documents.read_sentences(src), documents.read_sentences(tgt)
    translations = None
    if model is not None:
        translator = load_translator([bundle.find_model(model)])
        stream = with_bar(translator.stream(sides[0]), len(sides[0]), "translating", "sentence")
        translations = [translation.text for translation in stream]
    aligned = documents.align_documents(*sides, translations, progress=lambda stage: log.info(f"looking for {stage}"))
    if not len(aligned.beads):
        raise DataError(f"{src} and {tgt}: no sentence of one file looks like a translation of a sentence in the other")
    if not aligned.is_related:
        log.warning(
            f"{src} and {tgt} do not look like translations of each other: only {aligned.share:.0%} of the sentences "
            "have a likely partner"
        )

    documents.write_pairs(aligned, output, languages, details)
    if aside is not None:
        documents.write_unaligned(aligned, (src, tgt), aside)
    kinds = Counter(pair.kind for pair in aligned.pairs())
    rest = [len(lines) for lines in aligned.unaligned()]
    log.info(
        f"{' '.join(map(str, output))}: {counted(len(aligned.beads), 'pair')} "
        f"({', '.join(f'{n:,} {kind}' for kind, n in kinds.most_common())}); without a partner: {rest[0]:,} of "
        f"{counted(len(sides[0]), 'sentence')} of {src}, {rest[1]:,} of {len(sides[1]):,} of {tgt}"
        + (f"; {aligned.n_moved:,} out of order" if aligned.n_moved else "")
    )

"""`mtkit data report`: show what is in a corpus, and what is wrong with it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.data.shared import CorporaArgument, LangsOption
from mtkit.cli.options import OUTPUT, JsonOption, file_named
from mtkit.console import log
from mtkit.errors import DataError


def report(
    corpora: CorporaArgument,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            callback=file_named(".html"),
            rich_help_panel=OUTPUT,
            help="Write a page with charts and examples to this .html file.",
        ),
    ] = None,
    langs: LangsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what is in a corpus, and what is wrong with it.

    The table shows how common each kind of fault is, with its 95 % interval if mtkit judged a sample, and the highest
    value that is usual in clean corpora. The page adds examples with file and line, the command that helps, lengths,
    ratios, scripts, languages and the growth of the vocabulary. If you give a config, the command compares dev and test
    with train. Ten million pairs take a few minutes, because mtkit tries the cleaning rules on an even sample of a
    large corpus.
    """
    from mtkit.config.reading import loading
    from mtkit.corpora import report as reporting
    from mtkit.corpora import report_words
    from mtkit.corpora.cleaning import sources
    from mtkit.data import corpus as corpus_files

    files, languages = sources.find_corpora(corpora, langs)
    sources.require_regular_files(files)  # examples are read a second time
    held_out, tokenizer, augment = {}, None, None
    for path in corpora:
        if path.suffix in (".yaml", ".yml"):
            config = loading.load_config(path)
            data, tokenizer, augment = config.data, config.tokenizer, config.augment
            parts = [*((part.label, part) for part in data.dev), *([("test", data.test)] if data.test else [])]
            for name, part in parts:
                held_out[name if name not in held_out else f"{name} of {path}"] = list(corpus_files.read_pairs([part]))
    result = reporting.report_corpus(
        lambda: corpus_files.read_pairs(files), languages, held_out, tokenizer=tokenizer, augment=augment
    )
    if not result.n_pairs:
        raise DataError(f"{' '.join(map(str, corpora))}: no pairs")
    if output is not None:
        name = " ".join(str(path) for path in corpora)
        arguments = shlex.join([*map(str, corpora), *(["--langs", langs] if langs else [])])
        is_two_files = len(corpora) == 2 and len(files) == 1  # one file a side
        report_words.write_report_page(output, result, name, arguments, is_two_files)
        log.info(f"wrote {output}; open it in a browser")
    print(report_words.dump(result) if as_json else report_words.text_table(result))

"""`mtkit train-tokenizer`: train the tokenizers of a run, and report how they split the dev text."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from mtkit.cli.options import ConfigOption, JsonOption, SetOption, load_run_config

if TYPE_CHECKING:
    from mtkit.training.preparation import tokenizer_report


def train_tokenizer(
    config_path: ConfigOption,
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train the source and target tokenizers, and report how they split the dev text.

    `mtkit train` also does this; use this command to choose a vocabulary size. With train.init_from, the command uses
    the tokenizers of that model.
    """
    from mtkit.data import corpus
    from mtkit.runs import tokenizers as of_runs
    from mtkit.training.preparation import tokenizer_report

    config = load_run_config(config_path, overrides)

    corpus.require_files("data.train", config.data.train)
    corpus.require_files("data.dev", config.data.dev)  # the report's text

    reports = tokenizer_report.report_sides(config, of_runs.make_tokenizers(config))
    if as_json:
        print(json.dumps({side: asdict(report) for side, report in reports.items()}, indent=2))
    else:
        _print_table(reports, {"src": config.data.src_lang, "tgt": config.data.tgt_lang})


def _print_table(reports: dict[str, tokenizer_report.TokenizerReport], languages: dict[str, str]) -> None:
    from mtkit.training.preparation import tokenizer_report

    sides = list(reports.values())
    rows = [
        ("dev text", [f"{side}: {language}" for side, language in languages.items()]),
        ("vocabulary size", [f"{side.vocab_size:,}" for side in sides]),
        ("tokens per word", [f"{side.tokens_per_word:.2f}" for side in sides]),
        ("tokens in the longest sentence", [f"{side.longest:,}" for side in sides]),
        (
            f"pieces seen < {tokenizer_report.RARE_BELOW} times in training",
            [f"{side.rare_vocab_share:.1%}" for side in sides],
        ),
        ("  their share of the dev tokens", [f"{side.rare_token_share:.2%}" for side in sides]),
        ("characters split into bytes, share of tokens", [f"{side.byte_token_share:.2%}" for side in sides]),
        ("unknown tokens", [f"{side.n_unknown:,}" for side in sides]),
    ]
    for name, cells in rows:
        print(f"{name:<40}" + "".join(f"{cell:>12}" for cell in cells))
    for side, language in languages.items():
        if side in reports:
            print(f"characters that normalisation changes, {side} ({language}): {reports[side].changed}")

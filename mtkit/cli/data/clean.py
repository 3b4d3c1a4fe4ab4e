"""`mtkit data clean`: drop pairs that are not good translations, and list each with the reason."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mtkit.cli.data import clean_tables
from mtkit.cli.data.shared import LangsOption
from mtkit.cli.options import JsonOption, SetOption
from mtkit.cli.sharing import (
    ExecutorOption,
    RayAddressOption,
    RestartOption,
    Where,
    WorkersOption,
)
from mtkit.config.data import CorpusFiles, TrainCorpus
from mtkit.console import log
from mtkit.cores import usable_cores
from mtkit.errors import UsageError

if TYPE_CHECKING:
    from mtkit.corpora.cleaning import job as clean_job
    from mtkit.corpora.cleaning import outputs as clean_outputs


def clean(
    corpora: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="CORPUS",
            help="Files with both sides (.tsv, .tmx, .zip as from OPUS, ...), or two text files in a row "
            "(train.en train.de). Default: data.train of --config.",
        ),
    ] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            help="Write the kept pairs to this .tsv, .tmx, .csv or .jsonl file, or to two text files, source first, if "
            "you give the option twice; names may also end in .gz, .xz or .zst. For the corpora of a config, a folder.",
        ),
    ] = None,
    config_path: Annotated[
        Path | None, typer.Option("--config", "-c", help="YAML file whose clean section sets the rules.")
    ] = None,
    overrides: SetOption = None,
    langs: LangsOption = None,
    rejected: Annotated[
        Path | None,
        typer.Option(
            help="Write the dropped pairs to this file. Default: NAME.rejected.tsv.gz in the folder of the output."
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Write nothing; show what each rule would drop from a sample, and how long the cleaning would take.",
        ),
    ] = False,
    workers: WorkersOption = None,
    executor: ExecutorOption = "local",
    ray_address: RayAddressOption = None,
    restart: RestartOption = False,
    as_json: JsonOption = False,
) -> None:
    """Drop pairs that are not good translations, and list each with the rule that dropped it.

    Without a config, the rules have defaults that suit most corpora; --set clean.KEY=VALUE changes one, for example
    --set clean.numbers=false. The same command resumes an interrupted cleaning.
    """
    from mtkit.config.reading import loading
    from mtkit.corpora.cleaning import clean as cleaning
    from mtkit.corpora.cleaning import job as clean_job
    from mtkit.corpora.cleaning import sources
    from mtkit.pair_files import corpus_files

    config_path, corpora = _one_config(config_path, corpora or [])
    if config_path is None and not corpora:
        raise UsageError("nothing to clean: give corpora, such as train.en train.de, or --config")
    if config_path is None:
        cfg = loading.load_clean_section(overrides or [])
    else:
        config = loading.load_config(config_path, overrides or [])
        cfg = config.clean
    named = corpora or [config_path or Path()]
    files, languages = sources.find_corpora(named, langs, needs_translations=False)
    cleaning.check_rules(cfg, languages)
    sources.require_regular_files(files)  # it is read several times
    if dry_run:
        _show_sample(files, languages, cfg, workers, as_json)
        return
    outputs = _outputs(output or [], rejected, files, is_config=not corpora)
    if corpora and len(outputs[0].kept) == 1:
        corpus_files.check_outputs(outputs[0].kept, languages)
    _keep_inputs(outputs, [*named, *filter(None, (config_path, cfg.score))])
    corpus_files.check_order(output or [], languages)
    result = clean_job.run_clean(
        files,
        languages,
        cfg,
        outputs,
        executor=Where(workers, executor, ray_address).executor_for(usable_cores()),
        restart=restart,
    )
    _report(result, outputs, as_json)
    if not corpora and not as_json:
        log.info(f"to train on the kept pairs, replace the entries of data.train in {config_path} by:")
        print(_entries(config.data.train, outputs), end="")


def _one_config(config_path: Path | None, corpora: Sequence[Path]) -> tuple[Path | None, list[Path]]:
    """Return the config and the other corpora; a config among the corpora counts as --config."""
    configs = [path for path in corpora if path.suffix in (".yaml", ".yml")]
    if not configs:
        return config_path, list(corpora)
    if len(corpora) > 1 or config_path is not None:
        raise UsageError(f"{configs[0]}: clean the corpora of one config at a time, without other corpora")
    return configs[0], []


def _outputs(
    output: Sequence[Path], rejected: Path | None, files: Sequence[CorpusFiles], *, is_config: bool
) -> list[clean_outputs.Output]:
    """Return the output files: one for each corpus of a config, or one for all other corpora together."""
    from mtkit.corpora.cleaning import outputs as clean_outputs

    if not output:
        raise UsageError(
            "--output is missing: name the files for the kept pairs, or try the rules first with --dry-run"
        )
    if not is_config:
        return [clean_outputs.one_output(output, rejected, files)]
    if rejected is not None:
        raise UsageError(
            "--rejected: leave it out; each corpus of a config gets its own file of dropped pairs in the output folder"
        )
    return clean_outputs.output_for_each(output, files)


def _keep_inputs(outputs: Sequence[clean_outputs.Output], inputs: Sequence[Path]) -> None:
    """Raise UsageError if an output is an input, such as the config or the scores."""
    from mtkit.pair_files import corpus_files

    kept = [("--output", path) for output in outputs for path in output.kept]
    corpus_files.check_distinct([*kept, *(("--rejected", output.rejected) for output in outputs)], inputs)


def _entries(corpora: Sequence[Any], outputs: Sequence[clean_outputs.Output]) -> str:
    """Return data.train of the config as YAML that names the kept pairs; warn about scores of the old text."""
    from mtkit.augmentation import back_translation

    if any(corpus.scores for corpus in corpora):
        log.warning("data.train[].scores belong to the text before cleaning: score the kept pairs again")
    cleaned = [
        corpus.model_copy(
            update={**dict(zip(("src", "tgt"), output.kept, strict=False)), "scores": None, "min_score": None}
        )
        if len(output.kept) == 2 or corpus.is_untranslated
        else TrainCorpus(tsv=output.kept[0], tag=corpus.tag, weight=corpus.weight)
        for corpus, output in zip(corpora, outputs, strict=True)
    ]
    return back_translation.as_entries(cleaned)


def _show_sample(
    files: Sequence[Any], languages: tuple[str, str], cfg: Any, workers: int | None, as_json: bool
) -> None:
    from mtkit.corpora.cleaning import sample as clean_sample

    n_workers = workers or usable_cores()
    result = clean_sample.try_rules(files, languages, cfg, n_workers)
    if as_json:
        examples = {rule: [dataclasses.asdict(one) for one in found] for rule, found in result.examples.items()}
        print(json.dumps({**vars(result), "examples": examples}, ensure_ascii=False))
        return
    for line in clean_tables.sample_table(result, cfg, n_workers):
        print(line)
    _warn_of_high_tolls(result.dropped, result.n_sampled)


def _report(result: clean_job.CleanResult, outputs: Sequence[clean_outputs.Output], as_json: bool) -> None:
    if as_json:
        files = [{"kept": [*map(str, output.kept)], "rejected": str(output.rejected)} for output in outputs]
        print(json.dumps({**dataclasses.asdict(result), "outputs": files}, ensure_ascii=False))
    else:
        for line in clean_tables.result_table(result):
            log.info(line)
    _warn_of_high_tolls(result.dropped, result.n_pairs)
    if not as_json:
        log.info(
            f"wrote the dropped pairs, each with its rule, to {', '.join(str(output.rejected) for output in outputs)}"
        )


def _warn_of_high_tolls(dropped: Mapping[str, int], n_pairs: int) -> None:
    for line in clean_tables.high_tolls(dropped, n_pairs):
        log.warning(line)

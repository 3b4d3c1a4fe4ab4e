"""`mtkit back-translate` and `mtkit forward-translate`: make training pairs from text in one language."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.models import load_shared_translator, model_folders, option_overrides
from mtkit.cli.options import OUTPUT, TEXT, BeamSizeOption, DecodeSetOption, DeviceOption, EnsembleOption, output_option
from mtkit.cli.sharing import (
    ExecutorOption,
    ModelWorkersOption,
    RayAddressOption,
    RestartOption,
    Where,
)
from mtkit.config.data import TrainCorpus
from mtkit.config.tags import check_tag
from mtkit.console import log
from mtkit.errors import DataError, UsageError

if TYPE_CHECKING:
    from mtkit.augmentation import back_translation

TextOption = Annotated[
    Path,
    typer.Option(
        "--input",
        "-i",
        rich_help_panel=TEXT,
        help="Text to translate, one sentence a line; may end in .gz, .xz or .zst.",
    ),
]
TsvOption = Annotated[
    Path | None,
    output_option(help="Write the corpus: source, tab, target; may end in .gz, .xz or .zst."),
]
SrcOption = Annotated[
    Path | None,
    output_option(
        "--out-src", help="Instead of --output: write the source side to this file; may end in .gz, .xz or .zst."
    ),
]
TgtOption = Annotated[
    Path | None,
    output_option("--out-tgt", help="With --out-src: write the target side to this file; may end in .gz, .xz or .zst."),
]
RejectedOption = Annotated[
    Path | None,
    output_option(
        "--rejected", help="List the lines that the command leaves out: line number, reason, text, translation."
    ),
]
KeepSuspectOption = Annotated[
    bool,
    typer.Option(
        "--keep-suspect",
        rich_help_panel=OUTPUT,
        help="Keep translations that look broken (looping, copied, cut short).",
    ),
]
NBestOption = Annotated[
    int, typer.Option(min=1, max=1000, rich_help_panel=OUTPUT, help="Make at most N pairs from each line.")
]
TagOption = Annotated[
    str | None,
    typer.Option(rich_help_panel=OUTPUT, help="Tag for the printed entry, which training puts before each source."),
]
NoiseOption = Annotated[
    bool,
    typer.Option(
        "--noise", rich_help_panel=OUTPUT, help="Drop and move words of the translations (Edunov et al. 2018)."
    ),
]


def back_translate(
    text: TextOption,
    models: EnsembleOption = None,
    tsv: TsvOption = None,
    out_src: SrcOption = None,
    out_tgt: TgtOption = None,
    rejected: RejectedOption = None,
    tag: TagOption = "<bt>",
    noise: NoiseOption = False,
    keep_suspect: KeepSuspectOption = False,
    n_best: NBestOption = 1,
    beam_size: BeamSizeOption = None,
    overrides: DecodeSetOption = None,
    device: DeviceOption = "auto",
    workers: ModelWorkersOption = None,
    executor: ExecutorOption = "local",
    ray_address: RayAddressOption = None,
    restart: RestartOption = False,
) -> None:
    """Make a training corpus from target-language text: a target-to-source model writes the source side.

    --set decode.sampling=true samples the sources instead of searching for the best. The command prints the entry for
    data.train. The same command resumes an interrupted job.
    """
    from mtkit.augmentation import back_translation

    corpus, where = _corpus(tsv, out_src, out_tgt, tag), Where(workers, executor, ray_address)
    how = back_translation.Synthesis("back", n_best, noise, keep_suspect, rejected)
    _synthesize(text, corpus, models, how, beam_size, overrides, where, device=device, restart=restart)


def forward_translate(
    text: TextOption,
    models: EnsembleOption = None,
    tsv: TsvOption = None,
    out_src: SrcOption = None,
    out_tgt: TgtOption = None,
    rejected: RejectedOption = None,
    tag: TagOption = None,
    keep_suspect: KeepSuspectOption = False,
    n_best: NBestOption = 1,
    beam_size: BeamSizeOption = None,
    overrides: DecodeSetOption = None,
    device: DeviceOption = "auto",
    workers: ModelWorkersOption = None,
    executor: ExecutorOption = "local",
    ray_address: RayAddressOption = None,
    restart: RestartOption = False,
) -> None:
    """Make a training corpus from source-language text: a source-to-target model writes the target side.

    For training text that already has translations, see `mtkit distill`. The command prints the entry for data.train.
    The same command resumes an interrupted job.
    """
    from mtkit.augmentation import back_translation

    corpus, where = _corpus(tsv, out_src, out_tgt, tag), Where(workers, executor, ray_address)
    how = back_translation.Synthesis("forward", n_best, keep_suspect=keep_suspect, rejected=rejected)
    _synthesize(text, corpus, models, how, beam_size, overrides, where, device=device, restart=restart)


def _corpus(tsv: Path | None, src: Path | None, tgt: Path | None, tag: str | None) -> TrainCorpus:
    """Return the entry of data.train for the files to write."""
    if (tsv is None) == (src is None and tgt is None) or (src is None) != (tgt is None):
        raise UsageError("give either --output, or both --out-src and --out-tgt")
    files = {"src": src, "tgt": tgt, "tsv": tsv}
    absolute = {role: path.absolute() for role, path in files.items() if path is not None}
    try:
        if tag is not None:
            check_tag(tag)
    except ValueError as error:
        raise UsageError(f"--tag: {error}") from None
    return TrainCorpus(tag=tag, **absolute)


def _synthesize(
    text: Path,
    corpus: TrainCorpus,
    models: list[Path] | None,
    how: back_translation.Synthesis,
    beam_size: int | None,
    overrides: list[str] | None,
    where: Where,
    *,
    device: str,
    restart: bool,
) -> None:
    from mtkit.augmentation import back_translation

    if not text.is_file():
        raise UsageError(f"--input {text}: no such file")
    folders, settings = model_folders(models), [*(overrides or []), *option_overrides({"beam_size": beam_size})]
    shared = load_shared_translator(folders, settings, where, device)
    data = shared.members[0].config.data
    log.info(f"{text}: translating from {data.src_lang} into {data.tgt_lang}, like {folders[0]}")
    done = back_translation.synthesize(text, corpus, shared, how, restart=restart)
    log.info(f"{corpus.tsv or corpus.src}: {back_translation.summary(done.n_lines, done.counts)}")
    if not done.counts["pairs"]:
        raise DataError(f"{text}: no line gave a training pair; use --rejected FILE to see the reasons")
    if corpus.tag:
        log.info(f"the files contain no tags; training adds the entry's tag, {corpus.tag}, to each source")
    print(back_translation.as_entries([corpus]), end="")

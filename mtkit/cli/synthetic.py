"""`mtkit back-translate`, `mtkit forward-translate`: a text in one language in, a corpus to learn from out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit import bundle
from mtkit.augmentation import back_translation
from mtkit.cli.options import BeamSizeOption, DecodeSetOption, DeviceOption, EnsembleOption
from mtkit.cli.translating import load_translator
from mtkit.config import schema
from mtkit.console import log
from mtkit.errors import DataError, UsageError

TextOption = Annotated[Path, typer.Option("--input", "-i", help="Text to translate, one sentence a line; .gz too.")]
TsvOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="The corpus: source, tab, target (.gz by name).")
]
SrcOption = Annotated[Path | None, typer.Option("--out-src", help="Instead: its source side (.gz by name), and")]
TgtOption = Annotated[Path | None, typer.Option("--out-tgt", help="its target side.")]
RejectedOption = Annotated[
    Path | None, typer.Option(help="List here what is left out: line number, reason, text, translation.")
]
KeepSuspectOption = Annotated[
    bool, typer.Option("--keep-suspect", help="Keep translations that look broken (looping, copied, cut short), too.")
]
NBestOption = Annotated[int, typer.Option(min=1, help="Pairs made of each line, at most.")]
TagOption = Annotated[str | None, typer.Option(help="For the printed YAML: first token or tokens of each source.")]
RestartOption = Annotated[
    bool, typer.Option("--restart", help="Forget an interrupted job for this output instead of going on.")
]


def back_translate(
    text: TextOption,
    models: EnsembleOption = None,
    tsv: TsvOption = None,
    out_src: SrcOption = None,
    out_tgt: TgtOption = None,
    rejected: RejectedOption = None,
    tag: TagOption = "<bt>",
    noise: Annotated[
        bool, typer.Option("--noise", help="Leave out and move words of the translations (Edunov et al. 2018).")
    ] = False,
    keep_suspect: KeepSuspectOption = False,
    n_best: NBestOption = 1,
    beam_size: BeamSizeOption = None,
    overrides: DecodeSetOption = None,
    restart: RestartOption = False,
    device: DeviceOption = "auto",
) -> None:
    """Make a training corpus of target-language text: a target-to-source model translates it into the source side.

    --set decode.sampling=true draws the sources instead of searching for the best. Printed: the entry for data.train.
    Given again after an interruption, the command goes on where it stopped.
    """
    corpus = _corpus(tsv, out_src, out_tgt, tag)

    how = back_translation.Synthesis("back", n_best, noise, keep_suspect, rejected)
    _synthesize(text, corpus, models, how, _settings(overrides, beam_size), restart=restart, device=device)


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
    restart: RestartOption = False,
    device: DeviceOption = "auto",
) -> None:
    """Make a training corpus of source-language text: a source-to-target model translates it into the target side.

    For training text that has translations already, see `mtkit distill`. Printed: the entry for data.train.
    Given again after an interruption, the command goes on where it stopped.
    """
    corpus = _corpus(tsv, out_src, out_tgt, tag)

    how = back_translation.Synthesis("forward", n_best, keep_suspect=keep_suspect, rejected=rejected)
    _synthesize(text, corpus, models, how, _settings(overrides, beam_size), restart=restart, device=device)


def _settings(overrides: list[str] | None, beam_size: int | None) -> list[str]:
    return [*(overrides or []), *([f"decode.beam_size={beam_size}"] if beam_size else [])]


def _corpus(tsv: Path | None, src: Path | None, tgt: Path | None, tag: str | None) -> schema.TrainCorpus:
    """The files to be written, as an entry of data.train."""

    if (tsv is None) == (src is None and tgt is None) or (src is None) != (tgt is None):
        raise UsageError("give either --output, or both --out-src and --out-tgt")
    files = {"src": src, "tgt": tgt, "tsv": tsv}
    absolute = {role: path.absolute() for role, path in files.items() if path is not None}
    try:
        schema.check_tag(tag)
    except ValueError as error:
        raise UsageError(f"--tag {tag}: {str(error).partition(': ')[2]}") from None
    return schema.TrainCorpus(tag=tag, **absolute)


def _synthesize(
    text: Path,
    corpus: schema.TrainCorpus,
    models: list[Path] | None,
    how: back_translation.Synthesis,
    settings: list[str],
    *,
    restart: bool,
    device: str,
) -> None:
    if not text.is_file():
        raise UsageError(f"--input {text}: no such file")
    folders = [bundle.find_model(model) for model in models] if models else [bundle.find_model()]
    translator = load_translator(folders, overrides=settings, device=device)
    members = [bundle.read_bundle(folder, settings) for folder in folders]
    data = members[0].config.data
    log.info(f"{text}: translating from {data.source_language} into {data.target_language}, as {folders[0]} does")
    done = back_translation.synthesize(text, corpus, translator, members, how, restart=restart)
    log.info(f"{corpus.tsv or corpus.src}: {back_translation.summary(done.n_lines, done.counts)}")
    if not done.counts.get("pairs"):
        raise DataError(f"{text}: not one line gave a pair to learn from; --rejected FILE lists why")
    if corpus.tag:
        log.info(f"the text holds no tag: by the entry's tag, training puts {corpus.tag} before each source")
    print(back_translation.as_entries([corpus]), end="")

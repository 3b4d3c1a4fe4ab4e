"""`mtkit adapt`: adapt a model to the domain of a translation memory, and judge whether it is better."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import JsonOption, check_budget, check_other_folder
from mtkit.cli.shipping import import_model as importing
from mtkit.console import log
from mtkit.errors import UnnamedFiles, UsageError


def adapt(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", help="Run or bundle folder to start from, or a model that `mtkit import` reads."
        ),
    ],
    memory: Annotated[
        list[Path],
        typer.Argument(
            metavar="MEMORY",
            help="Text of your domain with translations: .tmx, .xlf, .po, .tsv, .csv, .jsonl, .zip as from OPUS, or "
            "two text files in a row, source first.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="FOLDER", help="Folder for the new model, its report and the work; resumes there."
        ),
    ],
    budget: Annotated[
        str, typer.Option(metavar="TIME", help="Wall time of the whole command, such as 10m or 1h30m.")
    ] = "10m",
    general: Annotated[
        list[Path] | None,
        typer.Option(
            "--general",
            metavar="FILE",
            help="Other text that the model must keep translating well: a file with both sides, two text files "
            "(give the option twice, source first), a text file in the source language, or pairs and then such a "
            "file. Default: the dev and training text that the model's config names, if it is there.",
        ),
    ] = None,
    new_pieces: Annotated[
        int,
        typer.Option(
            min=0,
            help="Most pieces to add to each tokenizer, learned from words and characters of the memory that it cuts "
            "into many.",
        ),
    ] = 0,
    src_lang: importing.SrcLangOption = None,
    tgt_lang: importing.TgtLangOption = None,
    as_json: JsonOption = False,
) -> None:
    """Adapt a model to a translation memory, and judge whether it is better.

    The command cleans the memory, sets dev and test text aside, tunes the model within the time, and compares it with
    the old model on the test text. FOLDER/model is the new model, and FOLDER/report.html compares both. If the new
    model is not significantly better, or loses too much elsewhere, the command exits with code 1 and writes no
    FOLDER/model. The same command resumes; a longer budget trains for longer. If the memory has grown, training starts
    again from MODEL. A model of many languages, such as NLLB, needs --src-lang and --tgt-lang if it is not yet
    imported.
    """
    since = time.monotonic()
    check_other_folder(out)
    check_budget(budget)
    if missing := next((path for path in (*memory, *(general or [])) if not path.exists()), None):
        raise UsageError(f"{missing}: no such file")

    folder = _base(model, out, src_lang, tgt_lang)
    from mtkit.adaptation import adapt as adapting

    judged = adapting.adapt(folder, memory, out, budget, general or [], since, new_pieces)
    log.info(f"report: {out / 'report.html'}")
    if as_json:
        print(json.dumps(dataclasses.asdict(judged), ensure_ascii=False))
    else:
        print("\n".join(judged.lines()))
        print(judged.verdict())
        if judged.model:
            print(judged.model)
    if judged.model is None:
        raise typer.Exit(1)


def _base(model: Path, out: Path, src_lang: str | None, tgt_lang: str | None) -> Path:
    """Return the bundle of a run or bundle folder; for a model of another system, import it to OUT/base-CHECKSUM.

    Raises UsageError if languages are given for a run or bundle, whose config already names them.
    """
    from mtkit.bundle import MANIFEST, find_model
    from mtkit.files import sha256_file

    if not importing.is_foreign(model):
        if src_lang or tgt_lang:
            raise UsageError(
                f"{model}: its languages are in its config; leave out --src-lang and --tgt-lang, "
                "which are for models of other systems that have to be imported"
            )
        return find_model(model)
    files = [model] if model.is_file() else sorted(path for path in model.iterdir() if path.is_file())
    facts = " ".join(
        [*(sha256_file(path) for path in files), *([f"{src_lang} {tgt_lang}"] if src_lang or tgt_lang else [])]
    )
    base = out / f"base-{hashlib.sha256(facts.encode()).hexdigest()[:12]}"  # another model gets another folder
    if not (base / MANIFEST).exists():
        try:
            with redirect_stdout(sys.stderr):
                importing.import_model(model, base, src_lang=src_lang, tgt_lang=tgt_lang)
        except UnnamedFiles as error:
            raise UnnamedFiles(
                f"{error} (options of `mtkit import {model} --out FOLDER`: run that first, then adapt FOLDER)"
            ) from error
    return base

"""Marian as a peer: its environment, a training of so many minutes, and its model brought to CTranslate2.

All of it runs in a virtual environment of its own: nothing here imports Marian.
"""

import os
import re
import signal
import subprocess
import time
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sentencepiece
import yaml

from mtkit.config.decoding import DecodeConfig
from mtkit.config.model import ModelConfig
from mtkit.config.schema import Config
from mtkit.console import log
from mtkit.errors import MtkitError

REQUIREMENTS = ("pymarian==1.12.42", "ctranslate2==4.8.5", "sentencepiece==0.2.3", "numpy", "pyyaml")
_SAVE_S = 300  # how long Marian may take to write its model when its time is up
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Batches:
    """What Marian's presets fix for long trainings on GPUs, and a short one on a CPU needs otherwise."""

    words: int  # source tokens of an update (mini-batch-words); the threads share them
    lr: float
    warmup: int  # updates; the learning rate falls with their inverse square root from there on


@dataclass(frozen=True)
class Trained:
    """What a training has done."""

    minutes: float  # from "Training started" to the signal to stop; no validation in them
    updates: int
    epochs: float
    labels: int  # target tokens learnt from, ends included


def make_environment(folder: Path) -> None:
    """A virtual environment with Marian and CTranslate2, unless it is there already."""
    if (folder / "complete").exists():
        return
    log.info(f"{folder}: installing {', '.join(REQUIREMENTS)}")
    venv.create(folder, with_pip=True, clear=True)
    run_in(folder, ["python", "-m", "pip", "install", "--quiet", *REQUIREMENTS])
    (folder / "complete").touch()


def run_in(environment: Path, command: list[str]) -> str:
    """Run a program of the environment; returns what it printed. Raises MtkitError with its last lines if it fails."""
    path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [str(environment / "bin" / command[0]), *command[1:]],
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise MtkitError(f"{' '.join(command)} failed:\n{_last_lines(done.stdout)}")
    return done.stdout


def differences(model: ModelConfig) -> list[str]:
    """What of the config's network Marian has no counterpart for, and what it gets in its place."""
    found = []
    if model.activation != "relu":
        found.append(f"activation={model.activation}: Marian trains with swish")
    if model.norm != "layernorm":
        found.append(f"norm={model.norm}: Marian trains with layernorm")
    if model.positions in ("rotary", "relative", "alibi"):
        found.append(f"positions={model.positions}: Marian trains with sinusoidal ones")
    if model.embedding_dropout != model.residual_dropout:
        found.append(f"embedding_dropout: Marian takes residual_dropout={model.residual_dropout} there, too")
    return found


def options(cfg: Config, folder: Path, n_threads: int, batches: Batches) -> dict[str, Any]:
    """Marian's options for the config's network.

    Those without a counterpart in the config are from its presets `--task transformer-base-prenorm` and
    `transformer-base` (src/common/aliases.cpp), but for `batches`; see README.md.
    """
    model = cfg.model
    pre_norm = model.norm_position == "pre"
    return {
        # the shape
        "type": "transformer",
        "dim-emb": model.d_model,
        "transformer-dim-ffn": model.d_ff,
        "transformer-heads": model.n_heads,
        "enc-depth": model.n_encoder_layers,
        "dec-depth": model.n_decoder_layers,
        "transformer-ffn-activation": "relu" if model.activation == "relu" else "swish",
        "transformer-preprocess": "n" if pre_norm else "",
        "transformer-postprocess": "da" if pre_norm else "dan",
        "transformer-postprocess-top": "n" if pre_norm else "",
        "transformer-train-position-embeddings": model.positions == "learned",
        "tied-embeddings": model.tie == "decoder",
        "tied-embeddings-all": model.tie == "all",
        # learning: the presets' values where they are not the config's
        "cost-type": "ce-mean-words",
        "transformer-dropout": model.residual_dropout,
        "transformer-dropout-attention": model.attention_dropout,
        "transformer-dropout-ffn": model.ffn_dropout,
        "label-smoothing": cfg.train.label_smoothing,
        "optimizer-params": [0.9, 0.98, 1e-09],
        "clip-norm": 0,
        "exponential-smoothing": 0.0001,
        "sync-sgd": True,
        "max-length": cfg.data.max_tokens,
        "maxi-batch": 1000,
        "mini-batch": 1000,
        "mini-batch-words": batches.words,
        "learn-rate": batches.lr,
        "lr-warmup": batches.warmup,
        "lr-decay-inv-sqrt": [batches.warmup],
        # this training
        "seed": cfg.seed or 1,  # 0 would mean: any
        "cpu-threads": n_threads,
        "data-threads": 1,
        "workspace": 1000,
        "train-sets": [str(folder / "train.src"), str(folder / "train.tgt")],
        "vocabs": [str(folder / "src.spm"), str(folder / "tgt.spm")],
        "model": str(folder / "model.npz"),
        "tempdir": str(folder),
        "overwrite": True,
        "disp-freq": "50u",
        "save-freq": "100000000u",  # the signal saves
        "valid-freq": "100000000u",  # all of the time is for learning
    }


def train(environment: Path, folder: Path, marian_options: dict[str, Any], minutes: float, n_pairs: int) -> Trained:
    """Train for so many minutes; folder gets model.npz, marian.yml and marian.log.

    Raises MtkitError with the end of the log if Marian stops before its time.
    """
    config, log_path = folder / "marian.yml", folder / "marian.log"
    config.write_text(yaml.safe_dump(marian_options, sort_keys=False), encoding="utf-8")
    (folder / "model.npz").unlink(missing_ok=True)
    (folder / "model.npz.progress.yml").unlink(missing_ok=True)
    command = [str(environment / "bin" / "python"), "-m", "pymarian", "train", "--no-reload", "--config", str(config)]
    with log_path.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            _wait(process, log_path, until="Training started", seconds=600)
            started = time.monotonic()
            _wait(process, log_path, until=None, seconds=60 * minutes)
            process.send_signal(signal.SIGTERM)  # Marian saves, then exits
            trained_s = time.monotonic() - started
            process.wait(_SAVE_S)
        finally:
            process.kill()
    progress = folder / "model.npz.progress.yml"
    if not progress.exists():
        raise MtkitError(f"{log_path}: Marian saved no model:\n{_last_lines(log_path.read_text())}")
    state = yaml.safe_load(progress.read_text(encoding="utf-8"))
    epochs = state["epochs"] - 1 + state["samples"] / n_pairs
    return Trained(trained_s / 60, state["batches"], epochs, state["labels-total"])


def _wait(process: "subprocess.Popen[bytes]", log_path: Path, until: str | None, seconds: float) -> None:
    """Until the log says so, or for so many seconds if until is None."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            raise MtkitError(f"{log_path}: Marian stopped before its time:\n{_last_lines(log_path.read_text())}")
        if until and until in log_path.read_text(encoding="utf-8", errors="replace"):
            return
        time.sleep(min(0.2, max(0.0, end - time.monotonic())))
    if until:
        raise MtkitError(f'{log_path}: no "{until}" within {seconds:.0f} s')


def last_progress(log_path: Path) -> str:
    """The last line in which Marian's log tells its cost and speed."""
    lines = [line for line in log_path.read_text(encoding="utf-8").splitlines() if "words/s" in line]
    return re.sub(r"^\[.*?\] ", "", lines[-1]) if lines else "(none)"


def convert(environment: Path, folder: Path) -> Path:
    """Bring folder/model.npz to CTranslate2; returns the new model's folder.

    Raises MtkitError if the vocabularies do not come out as they went in.
    """
    for side in ("src", "tgt"):
        _write_vocabulary(folder / f"{side}.spm", folder / f"{side}.yml")
    run_in(environment, ["python", str(_HERE / "peer_strip_npz.py"), f"{folder}/model.npz", f"{folder}/stripped.npz"])
    vocabularies = [str(folder / f"{side}.yml") for side in ("src", "tgt")]
    model = folder / "ctranslate2"
    command = ["ct2-marian-converter", "--model_path", str(folder / "stripped.npz"), "--vocab_paths", *vocabularies]
    run_in(environment, [*command, "--output_dir", str(model), "--force"])
    _check_vocabularies(folder, model)
    return model


def _pieces(spm: Path) -> list[str]:
    """All pieces in the order of their ids, special ones under the names that CTranslate2 knows."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(spm))
    names = {processor.unk_id(): "<unk>", processor.bos_id(): "<s>", processor.eos_id(): "</s>"}
    return [names.get(number, processor.id_to_piece(number)) for number in range(processor.get_piece_size())]


def _write_vocabulary(spm: Path, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        for number, piece in enumerate(_pieces(spm)):
            escaped = piece.replace("\\", "\\\\").replace('"', '\\"')
            file.write(f'"{escaped}": {number}\n')


def _check_vocabularies(folder: Path, model: Path) -> None:
    expected = [_pieces(folder / "src.spm"), _pieces(folder / "tgt.spm")]
    shared = model / "shared_vocabulary.json"
    paths = (
        [shared, shared] if shared.exists() else [model / "source_vocabulary.json", model / "target_vocabulary.json"]
    )
    for path, pieces in zip(paths, expected, strict=True):
        if yaml.safe_load(path.read_text(encoding="utf-8")) != pieces:  # JSON is YAML
            raise MtkitError(f"{path}: not the pieces of the SentencePiece model, or not in their order")


def translate(environment: Path, folder: Path, source: Path, output: Path, decode: DecodeConfig, threads: int) -> None:
    """Translate a file of lines with the converted model, as decode says."""
    sides = [str(folder / "src.spm"), str(folder / "tgt.spm")]
    command = [
        "python",
        str(_HERE / "peer_translate.py"),
        str(folder / "ctranslate2"),
        *sides,
        str(source),
        str(output),
    ]
    settings = (decode.beam_size, decode.length_penalty, threads, decode.max_len_factor, decode.max_len_constant)
    run_in(environment, [*command, *map(str, settings)])


def _last_lines(text: str) -> str:
    return "\n".join(text.splitlines()[-15:])

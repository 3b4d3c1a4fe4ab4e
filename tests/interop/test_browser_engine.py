"""What browsers compute with an exported model: checked by hand, against loops, and against the real engine.

For the last, fetch the engine with `npm install @browsermt/bergamot-translator@0.4.9`, here or elsewhere, and set
BERGAMOT_ENGINE to the folder of the package.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from browsing import open_page, served
from fixtures.interop import ENGLISH
from torch import nn
from typer.testing import CliRunner

from mtkit.bundle import add_to_bundle, load_bundle, load_model, read_bundle, save_bundle
from mtkit.cli import app
from mtkit.engines.native import NativeEngine
from mtkit.engines.shortlist import SHORTLIST, Shortlist, shortlist_of
from mtkit.interop.bergamot.arithmetic import BrowserLinear
from mtkit.interop.bergamot.folder import browser_model, export_bundle, import_model
from mtkit.interop.bergamot.page import PACKAGE
from mtkit.translation.translator import Translator

ROOT = Path(__file__).parents[2]
ENGINE = Path(os.environ.get("BERGAMOT_ENGINE", ROOT / "node_modules" / PACKAGE))
needs_engine = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("node") is None, reason="needs Node"),
    pytest.mark.skipif(not (ENGINE / "worker").is_dir(), reason=f"needs {PACKAGE}; BERGAMOT_ENGINE gives its folder"),
]


def layer_of(weight, bias=None) -> nn.Linear:
    linear = nn.Linear(len(weight[0]), len(weight), bias=bias is not None)
    linear.weight.data = torch.tensor(weight)
    if bias is not None:
        linear.bias.data = torch.tensor(bias)
    return linear


def test_inputs_are_rounded_cut_off_and_their_sums_saturate():
    # weights 127, 127, -127, 64: 127 levels for 1.27
    layer = BrowserLinear.from_linear(layer_of([[1.27, 1.27, -1.27, 0.64]], [0.5]), [10.0])
    # 20 x 10 becomes 127 and 0.24 x 10 becomes 2. The first pair: (127 + 127) x 127 + (2 + 127) x 127 = 48,641 becomes
    # 32,767; the second: 127 x -127 + 127 x 64 = -8,001. Without what 127 added, 127 x 191, that is 509 hundredths.
    assert layer(torch.tensor([[20.0, 0.24, 0.0, 0.0]])).item() == pytest.approx(509 / 100 / 10 + 0.5)


@pytest.mark.parametrize("largest", [1.0, 3.0])
def test_products_equal_those_in_16_bits(largest):
    rng = np.random.default_rng(5)
    weight = rng.integers(-127, 128, (6, 8)).astype(np.float32)
    weight[0, 0] = 127
    inputs = rng.uniform(-largest, largest, (5, 8)).astype(np.float32)
    whole = np.clip(np.rint(inputs * 100), -127, 127).astype(np.int64)
    products = (whole[:, None] + 127) * weight.astype(np.int64)
    of_pairs = np.clip(products.reshape(5, 6, 4, 2).sum(-1), -32_768, 32_767)
    sums = of_pairs.sum(-1) - 127 * weight.astype(np.int64).sum(-1)
    layer = BrowserLinear.from_linear(layer_of(weight.tolist()), [100.0])
    assert np.allclose(layer(torch.from_numpy(inputs)).numpy(), sums / 100, atol=1e-3)
    assert (of_pairs == 32_767).any()  # some did saturate


def test_matrices_that_the_file_has_apart_have_scales_of_their_own():
    # one level is 1 / 127 in the first matrix and 100 / 127 in the second
    layer = BrowserLinear.from_linear(layer_of([[1.0, 0.0], [100.0, 0.0]]), [127.0, 127.0])
    assert layer(torch.tensor([[0.5, 0.0]])).tolist() == [[pytest.approx(64 / 127), pytest.approx(6400 / 127)]]


def write_student(random: Path, folder: Path) -> None:
    """Write a student whose translations differ from each other and contain letters, not single bytes."""
    student = load_bundle(random)
    tokenizer, state = student.tgt_tokenizer, student.model.state_dict()
    for name, weight in state.items():
        if name.endswith("norm.weight"):
            weight += 1  # otherwise the source hardly matters
    size = tokenizer.vocab_size
    state["output.bias"][[piece.startswith("<0x") for piece in tokenizer.pieces(range(size))]] = -1_000.0
    save_bundle(folder, state, student.config, random / "src.spm", random / "tgt.spm", training={})
    add_to_bundle(folder, SHORTLIST, Shortlist.from_lexicon([[]] * size, range(size), size).save)


def in_engine(exported: Path, lines: list[str]) -> list[str]:
    """Return the translations of the real engine in Node."""
    command: list[str | Path] = ["node", ROOT / "scripts" / "bench" / "browser_engine.cjs", ENGINE, exported]
    done = subprocess.run(command, input=json.dumps(lines), capture_output=True, text=True, check=True)
    translations: list[str] = json.loads(done.stdout)["lines"]
    return translations


@pytest.mark.parametrize("tie", [pytest.param(tie, marks=needs_engine) for tie in ("all", "decoder")])
def test_the_real_engine_translates_as_browsers_are_said_to(make_student, tmp_path, tie):
    write_student(make_student(tmp_path / "random", tie), tmp_path / "bundle")
    export_bundle(tmp_path / "bundle", tmp_path / "exported", ENGLISH[:4])
    import_model(tmp_path / "exported", tmp_path / "again")
    subjects = ["I", "You", "The cat", "The house", "It", "A cat", "Do you", "The table", "The oranges", "We"]
    lines = [
        f"{subject} {rest}" for subject in subjects for rest in ("love oranges", "rains", "see", "sleeps", "see it")
    ]
    imported = read_bundle(tmp_path / "again")
    engine = NativeEngine(
        [browser_model(tmp_path / "exported", load_model(imported))], shortlist=shortlist_of(imported)
    )
    decode = imported.config.decode.model_copy(update={"on_suspect": "off"})
    ours = Translator(engine, imported.src_tokenizer, imported.tgt_tokenizer, decode).translate(lines)
    theirs = in_engine(tmp_path / "exported", lines)
    assert len(set(theirs)) > 25
    assert sum(our == their for our, their in zip(ours, theirs, strict=True)) >= 49  # rounding may decide a near tie


@pytest.mark.parametrize("tie", [pytest.param(tie, marks=needs_engine) for tie in ("all", "decoder")])
def test_the_page_shows_what_the_real_engine_translates(browser, make_student, tmp_path, tie):
    write_student(make_student(tmp_path / "random", tie), tmp_path / "bundle")
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in ENGLISH[:4]))
    limits = ["--src", tmp_path / "text", "--min-agreement", "0", "--max-score-difference", "9"]
    options = ["--model", tmp_path / "bundle", "--out", tmp_path / "page", "--engine", ENGINE, *limits]
    done = CliRunner().invoke(app, ["export", "--to", "page", *map(str, options)])
    assert done.exit_code == 0, done.output
    lines = ["The cat sleeps", "You love oranges", "It rains", "We see it", "Do you see it"]
    expected = in_engine(tmp_path / "page" / "model", lines)
    with served(tmp_path / "page") as (_, address), open_page(browser, address) as page:
        page.wait_for_selector("body[data-ready]")
        for line, translation in zip(lines, expected, strict=True):  # apart: lines of one text share a length limit
            page.fill("#text", line)
            page.wait_for_function("text => document.getElementById('translation').innerText === text", arg=translation)
    assert len(set(expected)) > 2

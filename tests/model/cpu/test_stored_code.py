"""Compiled code on disk: it gives the same bits as fresh code, and what is damaged or unwritable ends nothing."""

import importlib
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("numba")
import numba

from mtkit.model.cpu import jit

_KERNELS = """
import sys, numpy as np, torch
from mtkit.model.cpu import fused
from mtkit.model.cpu.compiled import CompiledOutput
if "softmax first" in sys.argv:
    fused.softmax(torch.randn(3, 5, 7), None, 1.0, 1)
torch.manual_seed(0)
logits, bias = torch.randn(2, 9, 277) * 3, torch.randn(277)
loss, nll, by_bias = fused.cross_entropy_(logits, bias, torch.arange(9), 0.1, 3.0)
print(loss.hex(), nll.hex(), by_bias.tolist(), logits.tolist())
if "softmax first" not in sys.argv:  # of the loops that translate, the one that compiles soonest
    output = CompiledOutput(torch.randn(90, 16), torch.randn(90), np.empty(0, np.float32))
    log_probs, ids = output.choose(torch.randn(4, 16).numpy(), 3, [])
    print(log_probs.tobytes().hex(), ids.tolist())
"""


def run(folder, *arguments):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", _KERNELS, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.splitlines()


def test_kernels_give_the_same_bits_whether_they_are_compiled_or_found_stored(tmp_path):
    loss, chosen = run(tmp_path / "one")
    assert list((tmp_path / "one").glob("**/*.nbc"))
    assert run(tmp_path / "one") == [loss, chosen]
    assert run(tmp_path / "two", "softmax first") == [loss]  # which has compiled parts that the loss has, too


@pytest.fixture
def double(tmp_path, monkeypatch):
    """A function that compiles a kernel as a new process would, with its code stored below `tmp_path`, and calls it."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "stored"))
    (tmp_path / "kernel_to_store.py").write_text("def double(x):\n    return x + x\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "kernel_to_store", raising=False)
    module = importlib.import_module("kernel_to_store")

    def call(dtype, source=module):
        kernel = jit.compiled(source.double)
        result = kernel(np.full(3, 1.5, dtype))
        return result.tolist(), result.dtype == dtype, sum(kernel.stats.cache_hits.values())

    return call


@pytest.mark.parametrize("mine", [True, False])
def test_a_new_checkout_finds_the_code_that_its_user_has_stored(double, tmp_path, monkeypatch, mine):
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    if not mine:
        monkeypatch.setattr("os.geteuid", lambda: -1)
    assert double(np.float32) == COMPILED
    monkeypatch.delitem(sys.modules, "kernel_to_store")
    (tmp_path / "other").mkdir()
    shutil.copy(tmp_path / "kernel_to_store.py", tmp_path / "other")
    monkeypatch.syspath_prepend(tmp_path / "other")
    # numba's own folder, next to the source, is used if another user could have written to that of the user
    assert double(np.float32, importlib.import_module("kernel_to_store")) == (LOADED if mine else COMPILED)
    assert len(list(tmp_path.glob("home/mtkit/*/*.nbc"))) == mine


RIGHT = ([3.0, 3.0, 3.0], True)
COMPILED, LOADED = (*RIGHT, 0), (*RIGHT, 1)


def stored_code(folder):
    return sorted(folder.glob("stored/**/kernel_to_store.double-*.nbc"))


def test_stored_code_that_is_damaged_or_for_other_numbers_is_compiled_again(double, tmp_path):
    assert [double(dtype) for dtype in (np.float32, np.float64, np.float32, np.float64)] == [
        *[COMPILED] * 2,
        *[LOADED] * 2,
    ]
    single, other = stored_code(tmp_path)
    other.write_bytes(single.read_bytes())  # two processes that write at the same time can leave this
    assert double(np.float64) == COMPILED
    single.write_bytes(b"")  # as after a power cut
    assert double(np.float32) == COMPILED
    assert single.stat().st_size > 0
    (index,) = tmp_path.glob("stored/**/kernel_to_store.double-*.nbi")
    for damaged in (b"", b"of no use"):
        index.write_bytes(damaged)
        assert double(np.float32) == COMPILED
        assert len(index.read_bytes()) > 100
        assert double(np.float32) == LOADED


def test_code_that_the_disk_refuses_is_not_stored(double, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("os.replace", refuse)
        assert double(np.float32) == COMPILED
    assert not stored_code(tmp_path)
    assert [double(np.float32), double(np.float32)] == [COMPILED, LOADED]


def test_a_kernel_that_cannot_be_stored_is_compiled_all_the_same():
    space: dict = {}
    exec("def twice(x):\n    return 2 * x", space)  # from no file, so there is no folder to store it in
    assert jit.compiled(space["twice"])(21) == 42

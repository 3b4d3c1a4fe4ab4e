"""The settings of a process before it trains."""

import logging
import os
import platform
import subprocess
import sys

import pytest
import torch

from mtkit.cores import made_by_intel
from mtkit.runtime import bound_kernel_stores, log_missing_loops, warn_of_slow_precision

STORES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")


@pytest.mark.parametrize(("n_threads", "kept"), [(1, ("512", "512")), (2, ("512", "256")), (64, ("512", "64"))])
def test_all_threads_together_keep_about_as_many_kernels_as_one(n_threads, kept, monkeypatch):
    for name in STORES:
        monkeypatch.setenv(name, "")  # so that monkeypatch puts it back, set or not
        monkeypatch.delenv(name)
    bound_kernel_stores(n_threads)
    assert tuple(os.environ[name] for name in STORES) == kept


def test_what_the_user_has_set_stays(monkeypatch):
    for name in STORES:
        monkeypatch.setenv(name, "7")
    bound_kernel_stores(2)
    assert [os.environ[name] for name in STORES] == ["7", "7"]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's memory")
def test_freed_memory_is_kept_for_what_comes_next():
    program = """
import ctypes, resource, torch
ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE: pages are small, whatever the system's default is
from mtkit.runtime import keep_freed_memory
def faults():
    torch.ones(12_000_000)  # more than the 32 MiB that glibc keeps by default
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def of_the_last_ten():
    counts = [faults() for _ in range(20)]
    return counts[-1] - counts[-11]
print(of_the_last_ten())
keep_freed_memory()
print(of_the_last_ten())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    not_kept, kept = map(int, done.stdout.split())
    assert kept * 10 < not_kept


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's memory")
def test_where_little_memory_may_be_had_all_of_it_can_still_be_used():
    program = """
import resource, torch
from mtkit.runtime import keep_freed_memory
now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + 900 * 2**20,) * 2)
keep_freed_memory()
print(len([torch.ones(2**18) for _ in range(600)]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "600\n"


def test_the_maker_of_the_processor_is_what_the_system_says(tmp_path, monkeypatch):
    for text, expected in (("vendor_id\t: GenuineIntel\n", True), ("vendor_id\t: AuthenticAMD\n", False)):
        monkeypatch.setattr("mtkit.cores.Path.read_text", lambda *_, text=text, **__: text)
        assert made_by_intel.__wrapped__() is expected
    monkeypatch.setattr("mtkit.cores.Path.read_text", lambda *_, **__: (tmp_path / "missing").open())
    monkeypatch.setattr("mtkit.cores.platform.processor", lambda: "arm")
    assert made_by_intel.__wrapped__() is False


def test_parts_without_compiled_loops_are_named(caplog):
    caplog.set_level(logging.INFO, logger="mtkit")
    log_missing_loops([])
    assert not caplog.text
    log_missing_loops(["model.positions=alibi"])
    assert "model.positions=alibi" in caplog.text and "five times" in caplog.text


@pytest.mark.parametrize(
    ("precision", "capabilities", "warns"),
    [
        ("bf16", {"avx2": True, "avx512_bf16": False, "amx_bf16": False}, True),
        ("bf16", {"avx2": True, "avx512_bf16": True, "amx_bf16": False}, False),
        ("bf16", {"avx2": True, "avx512_bf16": False, "amx_bf16": True}, False),
        ("fp32", {"avx2": True, "avx512_bf16": False, "amx_bf16": False}, False),
        ("bf16", {"neon": True}, False),  # other processors may have other instructions for it
    ],
)
def test_a_written_precision_that_the_processor_lacks_is_reported(precision, capabilities, warns, monkeypatch, caplog):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    warn_of_slow_precision(precision, torch.device("cpu"))
    assert ("train.precision=bf16" in caplog.text) == warns

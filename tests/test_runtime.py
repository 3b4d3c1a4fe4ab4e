"""What a process is set to before it trains."""

import os

import pytest

from mtkit.runtime import bound_kernel_stores, kernels_kept

STORES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")


@pytest.mark.parametrize(("n_threads", "kept"), [(1, ("512", "512")), (2, ("512", "256")), (64, ("512", "64"))])
def test_all_threads_together_keep_about_as_many_kernels_as_one(n_threads, kept, monkeypatch):
    for name in STORES:
        monkeypatch.setenv(name, "")  # so that monkeypatch puts it back, set or not
        monkeypatch.delenv(name)
    bound_kernel_stores(n_threads)
    assert tuple(os.environ[name] for name in STORES) == kept
    assert kernels_kept(n_threads) == int(kept[0]) + n_threads * int(kept[1])


def test_what_the_user_has_set_stays(monkeypatch):
    for name in STORES:
        monkeypatch.setenv(name, "7")
    bound_kernel_stores(2)
    assert [os.environ[name] for name in STORES] == ["7", "7"]

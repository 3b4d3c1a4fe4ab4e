"""Processes and machines that share a back-translation make the corpus that one process makes."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.slow


def start(*args):
    """Start a command of mtkit."""
    command = [sys.executable, "-m", "mtkit", *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def back_translate(shared_bundle, tmp_path):
    (tmp_path / "mono.txt").write_text("".join(f"I love {n} oranges.\n" for n in range(150)))

    def back_translate(output, *args):
        how = ["--keep-suspect", "--set", "decode.batch_sentences=1", "--set", "decode.max_len=5"]
        names = ["--model", shared_bundle, "-i", tmp_path / "mono.txt", "-o", tmp_path / output]
        return start("back-translate", *names, "--set", "decode.workers=1", *how, *args)

    return back_translate


def end(process):
    stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 0, stderr
    return stdout


def test_two_processes_and_ray_give_the_same_corpus(back_translate, tmp_path):
    entry = end(back_translate("one.tsv.gz"))
    assert end(back_translate("two.tsv.gz", "--workers", 2)) == entry.replace("one.tsv", "two.tsv")
    assert (tmp_path / "two.tsv.gz").read_bytes() == (tmp_path / "one.tsv.gz").read_bytes()
    if find_spec("ray") is None:
        pytest.skip("needs Ray: pip install 'mtkit[ray]'")
    assert end(back_translate("ray.tsv.gz", "--executor", "ray")) == entry.replace("one.tsv", "ray.tsv")
    assert (tmp_path / "ray.tsv.gz").read_bytes() == (tmp_path / "one.tsv.gz").read_bytes()
    assert len(list(tmp_path.iterdir())) == 4

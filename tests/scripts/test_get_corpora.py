"""The scripts that bring corpora into data/."""

import errno
import gzip
import hashlib
import http.client
import importlib
import io
import itertools
import random
import runpy
import sys
import urllib.request
import zipfile
from pathlib import Path

import pytest

from mtkit.errors import DataError
from mtkit.pair_files.lines import read_lines

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture(autouse=True)
def scripts(monkeypatch):
    """get_tatoeba and get_multi30k as modules, with no network."""
    monkeypatch.syspath_prepend(str(SCRIPTS))

    def no_network(*_, **__):
        raise OSError("no network in tests")

    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    names = ("get_tatoeba", "get_multi30k")
    yield tuple(importlib.import_module(name) for name in names)
    for name in (*names, "corpus_files"):
        sys.modules.pop(name, None)


@pytest.fixture
def tatoeba(scripts):
    return scripts[0]


@pytest.fixture
def multi30k(scripts):
    return scripts[1]


@pytest.fixture
def pairs(tatoeba):
    """700 pairs of which many share a sentence, sometimes but for case and punctuation."""
    chance = random.Random(0)
    marks = [" !", ".", " ?", "!!", ""]

    def say(word: str, number: int) -> str:
        return chance.choice([str.upper, str.lower])(f"{word} {number}") + chance.choice(marks)

    numbers = [chance.randrange(500) for _ in range(700)]
    found = [tatoeba.Pair(say("go", n), say("va", chance.choice([n, n, n, n // 2]))) for n in numbers]
    return list(dict.fromkeys(found))


def zipped(text: str, name: str = "fra.txt") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, text)
    return buffer.getvalue()


def simple(sentence: str) -> str:
    """Written independently of the script: letters, digits and single spaces, in lower case."""
    return " ".join("".join(c for c in sentence.lower() if c.isalnum() or c == " ").split())


def test_no_sentence_is_in_two_parts_on_either_side(tatoeba, pairs):
    parts = tatoeba.split(pairs, n_held_out=60, seed=1)
    assert [len(parts[part]) for part in ("dev", "test")] == [60, 60]
    assert sorted(itertools.chain.from_iterable(parts.values())) == sorted(pairs)
    for language in ("en", "fr"):
        sides = {part: {simple(getattr(pair, language)) for pair in chosen} for part, chosen in parts.items()}
        assert all(a.isdisjoint(b) for a, b in itertools.combinations(sides.values(), 2))


def test_the_split_keeps_the_order_and_follows_the_seed(tatoeba, pairs):
    parts = tatoeba.split(pairs, n_held_out=60, seed=1)
    for chosen in parts.values():
        places = [pairs.index(pair) for pair in chosen]
        assert places == sorted(places)
    assert tatoeba.split(pairs, n_held_out=60, seed=1) == parts
    assert tatoeba.split(pairs, n_held_out=60, seed=2)["dev"] != parts["dev"]


def test_a_sentence_with_very_many_translations_stays_in_train(tatoeba, pairs):
    many = [tatoeba.Pair("Hello!", f"bonjour {n}") for n in range(tatoeba.MAX_GROUP + 1)]
    fewer = [tatoeba.Pair("Bye!", f"salut {n}") for n in range(tatoeba.MAX_GROUP)]
    n_held_out = len(pairs) // 3
    held_out = set()
    for seed in range(10):
        parts = tatoeba.split([*pairs, *many, *fewer], n_held_out=n_held_out, seed=seed)
        held_out |= {pair.en for part in ("dev", "test") for pair in parts[part]}
    assert "Hello!" not in held_out
    assert "Bye!" in held_out


def test_too_few_pairs_are_an_error(tatoeba, pairs):
    with pytest.raises(DataError, match=r"3 pairs are too few to set 60 aside for dev"):
        tatoeba.split(pairs[:3], n_held_out=60, seed=1)


def test_a_downloaded_zip_becomes_six_files_and_the_licence(tatoeba, pairs, tmp_path, monkeypatch):
    monkeypatch.setattr(tatoeba, "N_HELD_OUT", 60)
    archive = tmp_path / "fra-eng.zip"
    text = "".join(f"{pair.en} \t{pair.fr}\tCC-BY 2.0 (France) Attribution: ...\n" for pair in [*pairs, pairs[0]])
    archive.write_bytes(zipped(text + "\n"))
    tatoeba.get(None, archive, tmp_path / "out")
    for part, chosen in tatoeba.split(pairs, 60, tatoeba.SEED).items():
        for language in ("en", "fr"):
            path = tmp_path / "out" / f"{part}.{language}.gz"
            assert list(read_lines(path)) == [getattr(pair, language) for pair in chosen]
    assert "CC BY 2.0 FR" in (tmp_path / "out" / "LICENCE.txt").read_text()


def damaged(packed: bytes) -> bytes:
    """With other bytes where the text begins."""
    at = packed.index(b"fra.txt") + len("fra.txt")
    return packed[:at] + b"\xff" * 8 + packed[at + 8 :]


@pytest.mark.parametrize(
    "content", [b"no zip", zipped("x\ty\n", "deu.txt"), zipped("no tab\n"), damaged(zipped("x\ty\n" * 99))]
)
def test_another_file_is_not_taken_for_the_corpus(tatoeba, tmp_path, content):
    (tmp_path / "x.zip").write_bytes(content)
    with pytest.raises(DataError, match=r"not the fra-eng\.zip of manythings\.org"):
        tatoeba.get(None, tmp_path / "x.zip", tmp_path / "out")
    with pytest.raises(DataError, match=r"missing\.zip: cannot be read \(No such file"):
        tatoeba.get(None, tmp_path / "missing.zip", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["get_tatoeba", "get_multi30k"])
def test_without_a_network_the_script_says_what_else_to_do(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--to", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(str(SCRIPTS / f"{name}.py"), run_name="__main__")
    assert str(stop.value).startswith(f"{name}.py: https://")
    assert "cannot be downloaded (no network in tests); get" in str(stop.value)
    assert "--from" in str(stop.value)
    assert not (tmp_path / "out").exists()


def test_a_download_that_breaks_off_is_explained(multi30k, tmp_path, monkeypatch):
    class Broken(io.BytesIO):
        def read(self, *_):
            raise http.client.IncompleteRead(b"half", 8)

    monkeypatch.setattr(urllib.request, "urlopen", lambda *_, **__: Broken())
    with pytest.raises(DataError, match=r"train\.en\.gz: .*\(IncompleteRead.*8 more expected\)\); get"):
        multi30k.get(None, tmp_path / "out")


def test_a_folder_that_cannot_be_written_is_one_clear_line(multi30k, monkeypatch):
    def fail() -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "data/multi30k")

    monkeypatch.setattr(sys, "argv", ["scripts/get_multi30k.py"])
    with pytest.raises(SystemExit) as stop:
        sys.modules["corpus_files"].run(fail)
    message = "get_multi30k.py: data/multi30k: Permission denied; check free space and permissions"
    assert str(stop.value) == message


@pytest.fixture
def source(scripts, tmp_path, monkeypatch):
    """A folder with a file for each expected name; the scripts expect these contents."""
    folder = tmp_path / "source"
    folder.mkdir()
    for script in scripts:
        checksums = {}
        for name in script.CHECKSUMS:
            (folder / name).write_bytes(name.encode())
            checksums[name] = hashlib.sha256(name.encode()).hexdigest()
        monkeypatch.setattr(script, "CHECKSUMS", checksums)
    return folder


@pytest.mark.parametrize(("script", "n_files", "terms"), [(0, 6, "tatoeba.org"), (1, 9, "non-commercial research")])
def test_the_files_of_a_folder_are_copied_once_and_their_terms_put_beside_them(
    scripts, source, tmp_path, script, n_files, terms
):
    get, checksums = scripts[script].get, scripts[script].CHECKSUMS
    arguments = [None] * (2 - script)
    get(source, *arguments[1:], tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted([*checksums, "LICENCE.txt"])
    assert len(checksums) == n_files
    assert all((tmp_path / "out" / name).read_bytes() == name.encode() for name in checksums)
    assert terms in " ".join((tmp_path / "out" / "LICENCE.txt").read_text().split())
    get(*arguments, tmp_path / "out")  # all there: nothing to download


@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_a_changed_or_missing_file_is_named_and_nothing_is_copied(multi30k, source, tmp_path, damage):
    path = source / "val.fr.gz"
    path.write_bytes(b"changed")
    if damage == "missing":
        path.unlink()
    message = r"val\.fr\.gz: " + ("no such file" if damage == "missing" else "another version, or damaged")
    with pytest.raises(DataError, match=message):
        multi30k.get(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_tokenised_files_that_were_cut_off_are_named(multi30k, tmp_path):
    for name in multi30k.TOKENISED:
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(b"text\n" * 99)[:20])
    with pytest.raises(DataError, match=r"\.gz: cannot be unpacked \(.*copy"):
        multi30k.get_tokenised(tmp_path, tmp_path / "out")


def test_a_download_is_verified_and_then_put_in_place(multi30k, source, tmp_path, monkeypatch):
    asked = []

    def give(request, timeout):
        asked.append(request.full_url)
        return io.BytesIO(request.full_url.rpartition("/")[2].encode())

    monkeypatch.setattr(urllib.request, "urlopen", give)
    multi30k.get(None, tmp_path / "out")
    assert asked == [multi30k.URL + name for name in multi30k.CHECKSUMS]
    assert (tmp_path / "out" / "train.de.gz").read_bytes() == b"train.de.gz"
    monkeypatch.setattr(urllib.request, "urlopen", lambda *_, **__: io.BytesIO(b"something else"))
    with pytest.raises(DataError, match=r"train\.en\.gz: another version"):
        multi30k.get(None, tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()

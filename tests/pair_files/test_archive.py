import gzip
import io
import zipfile

import pytest

from mtkit.errors import DataError
from mtkit.pair_files.corpus_files import own_languages, read_one_file
from mtkit.pair_files.pairs import Pair, Tally

OPUS = {
    "README": "Corpus: Books",
    "LICENSE": "public domain",
    "Books.en-fr.en": "one\ntwo\n",
    "Books.en-fr.fr": "un\ndeux\n",
    "Books.en-fr.ids": "1 1\n2 2\n",
}


def archive(tmp_path, members, **options):
    path = tmp_path / "corpus.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, **options) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


@pytest.mark.parametrize("langs", [None, ("en", "fr"), ("en_US", "fr")])
def test_an_opus_zip_is_read_as_it_is(tmp_path, langs):
    path, tally = archive(tmp_path, OPUS), Tally()
    name = f"{path}:Books.en-fr.en"
    assert list(read_one_file(path, langs, tally)) == [Pair("one", "un", name, 1), Pair("two", "deux", name, 2)]
    assert tally.n_units == 2
    assert own_languages(path) == ("en", "fr")


def test_what_macos_adds_to_an_archive_is_no_corpus(tmp_path):
    more = {f"__MACOSX/._{name}": b"\0\5\x16\7" for name in OPUS}
    assert [pair[:2] for pair in read_one_file(archive(tmp_path, OPUS | more), None)] == [
        ("one", "un"),
        ("two", "deux"),
    ]


def test_the_other_direction_is_read_from_the_other_member(tmp_path):
    assert next(read_one_file(archive(tmp_path, OPUS), ("fr", "en")))[:2] == ("un", "one")


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_tmx_in_a_zip_is_read(tmp_path, ending):
    tmx = '<tmx><tu><tuv xml:lang="en"><seg>a</seg></tuv><tuv xml:lang="de"><seg>b</seg></tuv></tu></tmx>'
    content = gzip.compress(tmx.encode()) if ending else tmx.encode()
    path = archive(tmp_path, {"x/README": b"", f"x/m.tmx{ending}": content})
    assert list(read_one_file(path, None)) == [Pair("a", "b", f"{path}:x/m.tmx{ending}", 1)]
    assert own_languages(path) == ("en", "de")


@pytest.mark.parametrize(
    ("members", "langs", "message"),
    [
        (OPUS, ("en", "de"), "no corpus in en and de.*contains README, LICENSE, Books.en-fr.en"),
        ({}, None, "corpus.zip: contains no files"),
        ({"README": ""}, None, "no corpus, .*contains README"),
        ({**OPUS, "m.tmx": ""}, None, "2 corpora, such as Books.en-fr.en and m.tmx; unzip"),
        ({**OPUS, "Books.en-fr.fr": "un\n"}, None, "Books.en-fr.en has 2 lines, .*Books.en-fr.fr has 1"),
        ({**OPUS, "Books.en-fr.fr": b"un\n\xe9\n"}, None, "Books.en-fr.fr: line 2, byte 1: 0xe9"),
        ({"\x1b[31m.en": "a", "\x1b[31m.de": b"\xe9"}, None, r"zip:'\\x1b\[31m\.de': line 1"),
        ({"a.en": "a", "a.de": b"\0" * 20_000_000}, None, "a.en and a.de: .*unpack to 20,000,001, as in a zip bomb"),
        ({"a.en": b"\n" * 9_000_000, "a.de": b"\n" * 9_000_000}, None, "18,000,000, as in a zip bomb"),
        ({"a.tmx": b" " * 20_000_000}, None, "a.tmx: .*20,000,000, as in a zip bomb"),
    ],
)
def test_an_archive_that_cannot_be_read_is_refused(tmp_path, members, langs, message):
    path = archive(tmp_path, members)
    with pytest.raises(DataError, match=message):
        list(read_one_file(path, langs))


def test_a_member_that_is_there_twice_is_refused(tmp_path):
    path = archive(tmp_path, OPUS)
    with zipfile.ZipFile(path, "a") as file, pytest.warns(UserWarning, match="Duplicate name"):
        file.writestr("Books.en-fr.fr", "autre\nchose\n")
    with pytest.raises(DataError, match=r"contains Books\.en-fr\.fr twice; unzip it"):
        list(read_one_file(path, None))


def test_how_much_of_an_archive_is_read_is_known(tmp_path):
    numbers = range(20_000)
    path = archive(tmp_path, {name: "".join(f"{i} {name}\n" for i in numbers) for name in ("a.en", "a.de")})
    tally, shares = Tally(), []
    for _ in read_one_file(path, None, tally):
        shares.append(tally.n_bytes_read() / path.stat().st_size)
    assert shares == sorted(shares)
    assert shares[0] < 0.2 and 0.4 < shares[10_000] < 0.6 and shares[-1] == 1


def test_damage_is_told(tmp_path):
    path = archive(tmp_path, {"a.en": "x\n" * 10_000, "a.de": "y\n" * 10_000})
    whole = path.read_bytes()
    start = whole.index(b"a.en") + 4
    for content in (b"", b"text", whole[:-30], whole[:start] + b"\xff" * 20 + whole[start + 20 :]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"corpus\.zip: not a zip file, or damaged"):
            list(read_one_file(path, None))
    path.unlink()
    with pytest.raises(DataError, match="no such file"):
        list(read_one_file(path, None))


def test_an_encrypted_member_is_told(tmp_path):
    raw = bytearray(archive(tmp_path, {"a.en": "x", "a.de": "y"}).read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        raw[raw.index(signature) + offset] |= 1
    (tmp_path / "corpus.zip").write_bytes(raw)
    with pytest.raises(DataError, match=r"a\.en: encrypted"):
        list(read_one_file(tmp_path / "corpus.zip", None))


def test_nothing_is_written_to_disk_whatever_members_are_called(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = archive(tmp_path, {"../../a.en": "x\n", "../../a.de": "y\n", "/etc/z": ""})
    assert [pair[:2] for pair in read_one_file(path, None)] == [("x", "y")]
    assert [entry.name for entry in tmp_path.iterdir()] == ["corpus.zip"]


def test_a_stored_archive_of_another_compression_is_read(tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_LZMA) as file:
        for name in ("a.en", "a.de"):
            file.writestr(name, f"{name}\n")
    (tmp_path / "a.zip").write_bytes(buffer.getvalue())
    assert [pair[:2] for pair in read_one_file(tmp_path / "a.zip", None)] == [("a.en", "a.de")]

import gzip
import hashlib
import os
import time
from pathlib import Path

import pytest

from mtkit.config.data import CorpusFiles, TrainCorpus
from mtkit.data import corpus
from mtkit.data.corpus import count_pairs, evenly_spaced, read_pairs, read_side, require_files, text_checksums
from mtkit.errors import DataError
from mtkit.pair_files.pairs import Pair


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def test_a_pipe_named_by_a_config_is_refused_before_it_is_opened(tmp_path):
    """It would be read a second time, and wait for ever."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match=r"pipe: not a regular file.*save it"):
        require_files("data.dev", [CorpusFiles(tsv=tmp_path / "pipe")])


def test_a_missing_file_has_no_checksum(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        text_checksums([CorpusFiles(tsv=tmp_path / "missing")])


def test_checksums_depend_on_the_text_and_its_role_not_its_path(tmp_path):
    a, b = write(tmp_path / "a", b"a\n"), write(tmp_path / "b", b"b\n")
    moved = write(tmp_path / "moved", b"a\n")
    here = text_checksums([CorpusFiles(src=a, tgt=b)])
    assert here == text_checksums([CorpusFiles(src=moved, tgt=b)])
    assert here != text_checksums([CorpusFiles(src=b, tgt=a)])


def test_the_checksum_is_that_of_the_text_however_it_is_compressed(tmp_path):
    plain, packed = write(tmp_path / "a", b"text\n" * 999), tmp_path / "a.gz"
    expected = [{"tsv": hashlib.sha256(b"text\n" * 999).hexdigest()}]
    assert text_checksums([CorpusFiles(tsv=plain)]) == expected
    for level in (1, 9):
        packed.write_bytes(gzip.compress(b"text\n" * 999, compresslevel=level, mtime=level))
        assert text_checksums([CorpusFiles(tsv=packed)]) == expected


def test_unchanged_text_is_hashed_once(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "_SETTLED_NS", -1)
    files = [CorpusFiles(tsv=write(tmp_path / "a", b"text\n"))]
    first, settled = text_checksums(files), (tmp_path / "a").stat()
    with monkeypatch.context() as patch:
        patch.setattr(hashlib, "sha256", lambda: pytest.fail("read again"))
        assert text_checksums(files) == first
    time.sleep(0.02)  # a file's times have no finer grain than this
    write(tmp_path / "a", b"tux!\n")
    os.utime(tmp_path / "a", ns=(settled.st_atime_ns, settled.st_mtime_ns))
    assert text_checksums(files) == [{"tsv": hashlib.sha256(b"tux!\n").hexdigest()}]


def test_text_written_a_moment_ago_is_hashed_again(tmp_path, monkeypatch):
    files = [CorpusFiles(tsv=write(tmp_path / "a", b"text\n"))]
    text_checksums(files)
    monkeypatch.setattr(hashlib, "sha256", lambda: pytest.fail("read again"))
    with pytest.raises(pytest.fail.Exception, match="read again"):
        text_checksums(files)


def test_pairs_come_from_several_corpora_with_their_places(tmp_path):
    src, tgt = write(tmp_path / "c.en.gz", b"one\ntwo\n"), write(tmp_path / "c.fr", b"un\r\ndeux\r\n")
    tsv = write(tmp_path / "more.tsv", b"\xef\xbb\xbfthree\ttrois\tLicence\n\tx\n")
    corpora = [CorpusFiles(src=src, tgt=tgt), CorpusFiles(tsv=tsv)]
    assert list(read_pairs(corpora)) == [
        Pair("one", "un", str(src), 1),
        Pair("two", "deux", str(src), 2),
        Pair("three", "trois", str(tsv), 1),
        Pair("", "x", str(tsv), 2),
    ]
    assert count_pairs(corpora) == 4
    assert list(read_side(corpora, "src")) == ["one", "two", "three", ""]
    assert list(read_side(corpora, "tgt")) == ["un", "deux", "trois", "x"]


def test_text_in_the_source_language_alone_is_read_as_pairs_without_a_target(tmp_path):
    mono = write(tmp_path / "mono.en.gz", b"one\n\nthree\n")
    corpora = [TrainCorpus(src=mono, tgt=None)]
    pairs = [Pair("one", "", str(mono), 1), Pair("", "", str(mono), 2), Pair("three", "", str(mono), 3)]
    assert list(read_pairs(corpora)) == pairs
    assert count_pairs(corpora) == 3
    assert list(read_side(corpora, "src")) == ["one", "", "three"]
    assert list(read_side(corpora, "tgt")) == ["", "", ""]


@pytest.mark.parametrize(("n_src", "n_tgt"), [(3, 5), (5, 3), (0, 1), (2000, 1)])
@pytest.mark.parametrize("read", [lambda corpora: list(read_pairs(corpora)), count_pairs])
def test_files_of_unequal_length_are_named_with_both_counts(tmp_path, read, n_src, n_tgt):
    src, tgt = write(tmp_path / "c.en", b"line\n" * n_src), write(tmp_path / "c.fr", b"ligne\n" * n_tgt)
    with pytest.raises(DataError) as error:
        read([CorpusFiles(src=src, tgt=tgt)])
    assert all(fact in str(error.value) for fact in (f"{src} has {n_src:,} lines", f"{tgt} has {n_tgt:,}"))


def test_a_tsv_line_without_a_tab_is_reported_with_its_number(tmp_path):
    tsv = write(tmp_path / "c.tsv", b"one\tun\ntwo deux\n")
    with pytest.raises(DataError, match=r"c.tsv: line 2: no tab"):
        list(read_pairs([CorpusFiles(tsv=tsv)]))


@pytest.mark.parametrize(
    ("n_items", "n", "chosen"),
    [(10, 3, [0, 3, 6]), (3, 10, [0, 1, 2]), (7, 7, list(range(7))), (1000, 1, [0]), (0, 5, [])],
)
def test_items_are_chosen_at_equal_distances(n_items, n, chosen):
    assert evenly_spaced(range(n_items), n) == chosen


TMX = '<tmx><header srclang="en"/>\n' + "".join(
    f"<tu>{texts}</tu>\n"
    for texts in (
        '<tuv xml:lang="en"><seg>one</seg></tuv><tuv xml:lang="fr"><seg>un</seg></tuv>',
        '<tuv xml:lang="en"><seg>two</seg></tuv>',
        '<tuv xml:lang="fr-CA"><seg>trois</seg></tuv><tuv xml:lang="en"><seg>three</seg></tuv>',
    )
)


def test_a_corpus_of_another_format_is_read_counted_and_what_is_left_out_is_said_once(tmp_path, caplog):
    path = write(tmp_path / "m.tmx", f"{TMX}</tmx>".encode())
    corpora = [
        CorpusFiles(file=path, langs=("en", "fr")),
        CorpusFiles(tsv=write(tmp_path / "a.tsv", b"four\tquatre\n")),
    ]
    with caplog.at_level("INFO", logger="mtkit"):
        assert count_pairs(corpora) == 3
        pairs = list(read_pairs(corpora))
    assert pairs[:2] == [Pair("one", "un", str(path), 1), Pair("three", "trois", str(path), 3)]
    assert list(read_side(corpora, "tgt")) == ["un", "trois", "quatre"]
    [message] = caplog.messages
    facts = f"{path}: ", "2 pairs of 3 units", "1 without fr", "fr (1), fr-CA (1)"
    assert [fact for fact in facts if fact not in message] == []
    assert corpus.corpus_name(corpora[0]) == str(path)


def test_the_checksum_of_a_file_in_several_languages_depends_on_those_that_are_read(tmp_path):
    path = write(tmp_path / "m.tmx", TMX.encode())
    [there], [back] = (text_checksums([CorpusFiles(file=path, langs=langs)]) for langs in (("en", "fr"), ("fr", "en")))
    assert there == {"file": f"{hashlib.sha256(TMX.encode()).hexdigest()}:en:fr"}
    assert there != back
    packed = write(tmp_path / "m.tmx.gz", TMX.encode())
    assert text_checksums([CorpusFiles(file=packed, langs=("en", "fr"))]) == [there]


@pytest.mark.parametrize("read", [lambda corpora: list(read_pairs(corpora)), count_pairs])
def test_a_truncated_file_is_reported_with_its_place(tmp_path, read):
    path = write(tmp_path / "m.tmx", TMX.encode())
    with pytest.raises(DataError, match=r"m\.tmx: line 5, .*ends too early, after 3 units"):
        read([CorpusFiles(file=path, langs=("en", "fr"))])


def test_a_file_of_an_unknown_format_is_refused_with_the_config(tmp_path):
    path = write(tmp_path / "text.en", b"")
    with pytest.raises(DataError, match=r"text\.en: unknown file extension .*\.tmx"):
        require_files("data.dev", [CorpusFiles(file=path)])

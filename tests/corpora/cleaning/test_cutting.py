"""The windows of corpora hold the pairs that read_pairs yields, in whatever order they are read."""

import gzip

import pytest

from mtkit.config.data import CorpusFiles
from mtkit.corpora.cleaning import cutting
from mtkit.corpora.cleaning.cutting import cut
from mtkit.data.corpus import read_pairs
from mtkit.errors import DataError
from mtkit.jobs.executors import InProcess
from mtkit.jobs.job import run_job


def windows_of(folder, corpora, window_pairs):
    """Cut corpora; return the pairs of each window, and the windows."""

    def make(job):
        windows = cut(job, corpora, window_pairs)
        pairs = {index: windows.read(index) for index in reversed(range(len(windows)))}
        job.finish(lambda: None)
        return [pairs[index] for index in range(len(windows))], windows

    result = run_job(folder / "out", make, inputs=(), settings={}, executor=InProcess())
    assert result is not None
    return result


def two_files(folder, src, tgt, name="a"):
    (folder / f"{name}.en").write_bytes(src)
    (folder / f"{name}.de").write_bytes(tgt)
    return CorpusFiles(src=folder / f"{name}.en", tgt=folder / f"{name}.de")


def corpora_in(folder):
    """Seven pairs in each way to store them, with all that makes lines hard."""
    src = "\ufeffone\r\n\r\nthr\u2028ee\n  four \nfive\x85\n\x0csix\nseven".encode()
    tgt = "eins\nzwei\tund\n\n\nfünf\nsechs\r\n\U0001f600\n".encode()
    plain = two_files(folder, src, tgt)
    packed = CorpusFiles(src=folder / "b.en.gz", tgt=folder / "b.de")
    (folder / "b.en.gz").write_bytes(gzip.compress(src))
    (folder / "b.de").write_bytes(tgt)
    (folder / "c.tsv").write_text("".join(f"source {n}\tZiel {n}\tmore\n" for n in range(7)))
    return [plain, packed, CorpusFiles(tsv=folder / "c.tsv"), two_files(folder, b"", b"", "empty")]


@pytest.mark.parametrize("window_pairs", [1, 2, 3, 7, 100])
def test_windows_hold_the_pairs_of_read_pairs(tmp_path, window_pairs):
    corpora = corpora_in(tmp_path)
    expected = list(read_pairs(corpora))
    parts, windows = windows_of(tmp_path, corpora, window_pairs)
    assert len(expected) == 21
    assert [pair for part in parts for pair in part] == expected
    assert windows.sizes == [len(part) for part in parts]
    assert max(windows.sizes) <= window_pairs
    assert [windows.file(index) for index in range(len(windows))] == [part[0].file for part in parts]
    assert all(len({pair.file for pair in part}) == 1 for part in parts)
    assert {windows.corpus(index) for index in range(len(windows))} == {0, 1, 2}


def test_windows_of_long_lines_have_fewer_pairs(tmp_path, monkeypatch):
    monkeypatch.setattr(cutting, "_WINDOW_BYTES", 1000)
    lines = b"".join(b"x" * n + b"\n" for n in (10, 900, 10, 2000, 10, 10))
    plain = two_files(tmp_path, lines, lines)
    (tmp_path / "long.tsv").write_bytes(b"".join(line + b"\t" + line + b"\n" for line in lines.splitlines()))
    parts, windows = windows_of(tmp_path, [plain, CorpusFiles(tsv=tmp_path / "long.tsv")], 100)
    assert [len(part) for part in parts] == [2, 2, 2, 2, 2, 2]
    assert windows.place(1) == f"{tmp_path / 'a.en'}, 2 pairs from line 3 on"


@pytest.mark.parametrize(("src", "tgt"), [(b"1\n2\n3\n", b"1\n2\n"), (b"1\n2\n", b"1\n2\n3\n"), (b"", b"1\n")])
def test_unequal_files_are_refused_as_by_read_pairs(tmp_path, src, tgt):
    corpus = two_files(tmp_path, src, tgt)
    with pytest.raises(DataError) as expected:
        list(read_pairs([corpus]))
    with pytest.raises(DataError) as error:
        windows_of(tmp_path, [corpus], 2)
    assert str(error.value) == str(expected.value)
    assert {path.name for path in tmp_path.iterdir()} == {"a.en", "a.de"}


@pytest.mark.parametrize("side", [0, 1])
def test_a_line_that_is_too_long_is_refused_without_reading_it_whole(tmp_path, monkeypatch, side):
    monkeypatch.setenv("MTKIT_MAX_LINE_BYTES", "100")
    texts = [b"a\nb\n" + b"x" * 1000 + b"\nd\n", b"a\nb\nc\nd\n"]
    corpus = two_files(tmp_path, texts[side], texts[1 - side])
    with pytest.raises(DataError, match=r"a\.(en|de): line 3 has more than 100 bytes"):
        windows_of(tmp_path, [corpus], 2)


def test_a_line_that_is_not_utf8_is_named_with_its_own_number(tmp_path):
    corpus = two_files(tmp_path, b"1\n2\n3\n4\n5\xff\n", b"1\n2\n3\n4\n5\n")
    with pytest.raises(DataError, match=r"a\.en: line 5, byte 2: 0xff"):
        windows_of(tmp_path, [corpus], 2)

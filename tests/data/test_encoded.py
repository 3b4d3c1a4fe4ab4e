import gzip
import shutil
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from mtkit.config.data import CorpusFiles
from mtkit.config.tokenizer import TokenizerConfig
from mtkit.data import encoding
from mtkit.data.corpus import read_pairs
from mtkit.data.encoded import EncodeCounts, concatenate
from mtkit.data.encoding import PairEncoding
from mtkit.errors import DataError
from mtkit.files import sha256_file
from mtkit.tokens.tokenizer import Tokenizer, train_tokenizer


@pytest.fixture
def encode(tokenizers, tmp_path):
    """encode(corpora, max_tokens=None, max_length_ratio=None, tokenizers=...) into tmp_path/cache."""

    def call(*corpora, max_tokens=None, max_length_ratio=None, tokenizers=tokenizers, is_verified=False):
        src, tgt = tokenizers
        of_pairs = PairEncoding(src, tgt, max_tokens, max_length_ratio)
        return encoding.encode(corpora, of_pairs, tmp_path / "cache", is_verified=is_verified)

    return call


def test_every_pair_comes_back_as_its_ids(encode, tokenizers, write_corpus, make_lines, monkeypatch):
    monkeypatch.setattr(encoding, "_CHUNK_PAIRS", 7)
    src, tgt = make_lines("src", 50), make_lines("tgt", 50)
    corpus = encode(write_corpus(src, tgt))
    assert corpus.n_pairs == 50
    for i in range(50):
        assert corpus.src[i].tolist() == tokenizers[0].encode(src[i])
        assert corpus.tgt[i].tolist() == tokenizers[1].encode(tgt[i])
    assert corpus.src_lengths.tolist() == [len(tokenizers[0].encode(line)) for line in src]
    assert corpus.tgt_lengths.tolist() == [len(tokenizers[1].encode(line)) for line in tgt]
    assert corpus.sizes == [50]


def test_long_lines_are_encoded_a_few_at_a_time(encode, write_corpus, monkeypatch):
    monkeypatch.setattr(encoding, "_CHUNK_CHARACTERS", 100)
    encode_replaced, sizes = Tokenizer.encode_replaced, []

    def recording(self, texts):
        sizes.append(sum(map(len, texts)))
        return encode_replaced(self, texts)

    monkeypatch.setattr(Tokenizer, "encode_replaced", recording)
    lines = [word * n for word, n in zip(["cat ", "dog "] * 20, range(40), strict=True)]
    corpus = encode(write_corpus(lines, lines))
    assert corpus.counts == EncodeCounts(n_read=40, n_blank=1, n_kept=39)
    assert max(sizes) <= 50 + max(map(len, lines))
    assert sum(sizes) == 2 * sum(map(len, lines))


def test_pairs_taken_are_those_of_the_corpus_and_outlive_its_release(encode, write_corpus, make_lines):
    corpus = encode(write_corpus(make_lines("src", 50), make_lines("tgt", 50)))
    indices = np.array([7, 3, 3, 49])
    taken = corpus.take(indices)
    corpus.release()
    for side, of_corpus in ((taken.src, corpus.src), (taken.tgt, corpus.tgt)):
        assert [side[i].tolist() for i in range(4)] == [of_corpus[i].tolist() for i in indices]
        assert side.lengths.tolist() == of_corpus.lengths[indices].tolist()
        twice = concatenate([side, side])
        assert [twice[i].tolist() for i in range(8)] == [of_corpus[i].tolist() for i in [*indices, *indices]]


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="tells which memory is resident")
def test_parts_read_count_as_memory_until_released(encode, write_corpus):
    corpus = encode(write_corpus(["cat dog " * 40] * 2000, ["chat " * 80] * 2000))

    def resident_kib(name):
        lines = iter(Path("/proc/self/smaps").read_text().splitlines())
        mapped = (line for line in lines if line.endswith(name))
        return sum(int(next(line for line in lines if line.startswith("Rss:")).split()[1]) for _ in mapped)

    corpus.release()
    before = resident_kib("/src.ids")
    total = int(corpus.src.ids.sum())
    read = resident_kib("/src.ids")
    corpus.release()
    assert read > before + 200, "some 160,000 tokens of two bytes"
    assert resident_kib("/src.ids") < read / 4
    assert int(corpus.src.ids.sum()) == total


def test_blank_pairs_are_counted_and_lines_keep_their_numbers(encode, write_corpus, log_text):
    files = write_corpus(["the cat", "", "the dog", "the", "\u200b", "a"], ["le chat", "le", "  ", "le", "x", "un"])
    corpus = encode(files)
    assert corpus.counts == EncodeCounts(n_read=6, n_blank=3, n_kept=3)
    assert [corpus.line_of(i) for i in range(3)] == [f"{files.src}:{line}" for line in (1, 4, 6)]
    message = log_text()
    assert message.startswith(f"{files.src}: 3 of 6 pairs")
    assert "3 with a blank side" in message


def test_pairs_too_long_or_too_different_in_length_are_left_out_and_counted(encode, tokenizers, write_corpus):
    src = ["cat", "cat " * 6, "cat", "cat cat", "cat", ""]
    tgt = ["chat", "chat " * 6, "chat chat chat", "chat " * 3, "chat " * 6, "chat"]
    one, other = len(tokenizers[0].encode("cat")), len(tokenizers[1].encode("chat"))
    lengths = [(one * len(s.split()), other * len(t.split())) for s, t in zip(src, tgt, strict=True)]
    assert lengths[0] == (3, 2)  # the words' tokens; the figures below follow from them
    corpus = encode(write_corpus(src, tgt), max_tokens=10, max_length_ratio=1.5)
    # Pairs of (3, 2), (18, 12), (3, 6), (6, 6), (3, 12) tokens, and a blank one.
    assert corpus.counts == EncodeCounts(n_read=6, n_blank=1, n_too_long=2, n_ratio=1, n_kept=2)
    assert [corpus.line_of(i).rpartition(":")[2] for i in range(2)] == ["1", "4"]
    at_the_limits = encode(write_corpus(src, tgt), max_tokens=18, max_length_ratio=2.0)
    assert at_the_limits.counts == EncodeCounts(n_read=6, n_blank=1, n_ratio=1, n_kept=4)


def test_without_limits_only_blank_pairs_are_left_out(encode, write_corpus):
    corpus = encode(write_corpus(["cat " * 5000, "cat", " "], ["chat", "chat " * 5000, "chat"]))
    assert corpus.counts == EncodeCounts(n_read=3, n_blank=1, n_kept=2)
    assert corpus.src_lengths[0] >= 5000


def test_pairs_of_several_corpora_are_named_after_their_files(encode, write_corpus, tmp_path):
    first = write_corpus(["the cat", ""], ["le chat", ""], "first")
    empty = write_corpus([], [], "empty")
    (tmp_path / "more.tsv").write_text("\tx\na dog\tun chien\n")
    corpus = encode(first, empty, CorpusFiles(tsv=tmp_path / "more.tsv"), first)
    places = [corpus.line_of(i) for i in range(corpus.n_pairs)]
    assert places == [f"{first.src}:1", f"{tmp_path / 'more.tsv'}:2", f"{first.src}:1"]


def test_the_same_text_under_another_name_is_not_encoded_again(encode, write_corpus, make_lines, tmp_path, log_text):
    corpus = encode(write_corpus(make_lines("src", 20), make_lines("tgt", 20)))
    log_text()
    moved = write_corpus(make_lines("src", 20), make_lines("tgt", 20), "moved")
    again = encode(moved)
    message = log_text()
    assert "from the cache" in message
    assert "20 of 20 pairs" in message
    assert again.fingerprint == corpus.fingerprint
    assert again.src.ids.tolist() == corpus.src.ids.tolist()
    assert again.line_of(0) == f"{moved.src}:1"
    assert len(list((tmp_path / "cache").iterdir())) == 1


@pytest.mark.parametrize("change", ["text", "tokenizer", "max_tokens", "max_length_ratio", "sides"])
def test_whatever_shapes_the_result_changes_the_fingerprint(
    encode, tokenizers, write_corpus, make_lines, tmp_path, change
):
    src, tgt = make_lines("src", 20), make_lines("tgt", 20)
    files = write_corpus(src, tgt)
    before = encode(files).fingerprint
    options: dict[str, Any] = {}
    if change == "text":
        files = write_corpus(src, [*tgt[:-1], "autre"])
    elif change == "sides":
        files = CorpusFiles(src=files.tgt, tgt=files.src)
    elif change == "tokenizer":
        other = train_tokenizer(src, TokenizerConfig(type="char"), tmp_path / "other.spm")
        options = {"tokenizers": (other, tokenizers[1])}
    else:
        options = {change: 1000}
    assert encode(files, **options).fingerprint != before


@pytest.mark.parametrize(
    "name", ["manifest.json", "meta.json", "src.ids", "src.lengths", "src.starts", "tgt.ids", "tgt.starts", "lines"]
)
@pytest.mark.parametrize("damage", ["cut", "longer", "missing", "bit"])
def test_a_damaged_cache_is_made_again(encode, write_corpus, make_lines, tmp_path, log_text, name, damage):
    files = write_corpus(make_lines("src", 20), make_lines("tgt", 20))
    ids = encode(files).src.ids.tolist()
    [folder] = (tmp_path / "cache").iterdir()
    content = (folder / name).read_bytes()
    (folder / name).unlink()  # not written in place: the corpus above still has it mapped
    flipped = content[:-4] + bytes([content[-4] ^ 1]) + content[-3:]  # sizes and format stay right
    damaged = {"cut": content[: len(content) // 2], "longer": content * 2, "bit": flipped}
    if damage != "missing":
        (folder / name).write_bytes(damaged[damage])
    log_text()
    assert encode(files).src.ids.tolist() == ids
    message = log_text()
    assert f"{folder}: damaged" in message
    assert name in message or name == "manifest.json"
    assert "from the cache" not in message
    assert (folder / name).read_bytes() == content


def test_a_cache_that_another_process_verified_is_opened_as_it_is(encode, write_corpus, monkeypatch):
    files = write_corpus(["the cat"], ["le chat"])
    encode(files)
    monkeypatch.setattr(
        encoding, "sha256_file", lambda path: sha256_file(path) if path.suffix == ".spm" else pytest.fail("read")
    )
    with pytest.raises(pytest.fail.Exception):
        encode(files)
    encode(files, is_verified=True)


def test_text_that_changes_while_it_is_encoded_is_refused(encode, write_corpus, tmp_path, monkeypatch):
    """Its cache would have the checksum of other text."""
    files = write_corpus(["the cat"] * 5, ["le chat"] * 5)

    def growing(corpora):
        yield from read_pairs(corpora)
        for path in (files.src, files.tgt):
            with path.open("a") as file:
                file.write("more\n")

    monkeypatch.setattr(encoding, "read_pairs", growing)
    with pytest.raises(DataError, match=rf"{files.src}.*changed while mtkit encoded"):
        encode(files)
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_failed_encoding_leaves_no_cache(encode, write_corpus, tmp_path):
    files = write_corpus(["cat"] * 30, ["chat"] * 30)
    files.tgt.write_bytes(b"chat\n" * 20 + b"\xff\n" + b"chat\n" * 9)
    with pytest.raises(DataError, match=r"train\.tgt: line 21, byte 1"):
        encode(files)
    assert list((tmp_path / "cache").iterdir()) == []


def test_unequal_files_are_an_error_before_anything_is_encoded(encode, write_corpus, monkeypatch):
    monkeypatch.setattr(encoding, "read_pairs", lambda _: pytest.fail("the counts come first"))
    with pytest.raises(DataError, match=r"train\.src .*3 lines.*train\.tgt .*2"):
        encode(write_corpus(["cat"] * 3, ["chat"] * 2))


@pytest.mark.parametrize(
    ("src", "tgt", "message"),
    [
        ([], [], "0 of 0 pairs"),
        (["", " "], ["x", ""], r"0 of 2 pairs .*2 with a blank side"),
        (["cat " * 99], ["chat"], r"0 of 1 pair kept .*1 too long"),
    ],
)
def test_a_corpus_without_a_usable_pair_is_an_error(encode, write_corpus, tmp_path, src, tgt, message):
    with pytest.raises(DataError, match=message):
        encode(write_corpus(src, tgt), max_tokens=50)
    assert list((tmp_path / "cache").iterdir()) == []


def test_the_length_ratio_ignores_tags(encode, tokenizers, write_corpus, make_lines, tmp_path):
    """Counting its two tags, the first pair would exceed the ratio, and the second would not."""
    tags = ["<2fr>", "<cap>"]
    src = train_tokenizer(make_lines("src", 100), TokenizerConfig(vocab_size=300), tmp_path / "tagged.spm", tags=tags)
    n_src, n_tgt = len(src.encode("cat")), len(tokenizers[1].encode("chat"))
    files = write_corpus(["cat", "cat", ""], ["chat", "chat " * 6, "chat"])
    options = {"tokenizers": (src, tokenizers[1]), "max_length_ratio": 2.0}
    assert (n_src, n_tgt) == (4, 2)  # the figures below follow from them
    expected = EncodeCounts(n_read=3, n_blank=1, n_ratio=1, n_kept=1)
    assert encode(files, **options).counts == expected
    tagged = encode(files.model_copy(update={"tag": " ".join(tags)}), **options)
    assert tagged.counts == expected
    assert (tagged.src_lengths.tolist(), tagged.tgt_lengths.tolist()) == ([n_src + 2], [n_tgt])
    with pytest.raises(DataError, match="2 too long"):  # tags are tokens
        encode(files.model_copy(update={"tag": " ".join(tags)}), **options, max_tokens=n_src + 1)


def test_text_with_another_tag_is_encoded_again(encode, tokenizers, write_corpus, make_lines, tmp_path):
    lines, tags = make_lines("src", 100), ["<2de>", "<2fr>"]
    src = train_tokenizer(lines, TokenizerConfig(vocab_size=300), tmp_path / "tagged.spm", tags=tags)
    files = write_corpus(["cat"], ["chat"])
    for tag in tags:
        corpus = encode(files.model_copy(update={"tag": tag}), tokenizers=(src, tokenizers[1]))
        assert corpus.src[0].tolist() == [*src.piece_ids([tag]), *src.encode("cat")]


def test_a_compressed_corpus_gives_the_same_ids(encode, write_corpus, make_lines, tmp_path):
    files = write_corpus(make_lines("src", 20), make_lines("tgt", 20))
    packed = CorpusFiles(src=tmp_path / "packed.src.gz", tgt=tmp_path / "packed.tgt.gz")
    for plain, path in ((files.src, packed.src), (files.tgt, packed.tgt)):
        assert plain is not None and path is not None
        path.write_bytes(gzip.compress(plain.read_bytes()))
    assert encode(packed).tgt.ids.tolist() == encode(files).tgt.ids.tolist()


def test_ids_take_two_bytes_where_the_vocabulary_allows_it_and_four_elsewhere(tmp_path, write_corpus):
    class ManyPieces:
        """A tokenizer with a large vocabulary whose words are ids."""

        vocab_size = 2**16 + 1
        path = Path(__file__)
        placeholders = None

        def tagged(self, tag: None) -> "ManyPieces":
            return self

        def encode_replaced(self, texts: list[str]) -> list[list[int]]:
            return [[int(word) for word in text.split()] for text in texts]

    class JustFits(ManyPieces):
        vocab_size = 2**16

    files = write_corpus(["65536 7"], ["65535 8"])
    many, fits = cast(Tokenizer, ManyPieces()), cast(Tokenizer, JustFits())
    corpus = encoding.encode([files], PairEncoding(many, fits, None, None), tmp_path / "cache")
    assert (corpus.src[0].tolist(), corpus.src.ids.dtype) == ([65536, 7], np.uint32)
    assert (corpus.tgt[0].tolist(), corpus.tgt.ids.dtype) == ([65535, 8], np.uint16)


def test_an_open_corpus_survives_the_removal_of_its_cache(encode, write_corpus, make_lines, tmp_path):
    corpus = encode(write_corpus(make_lines("src", 20), make_lines("tgt", 20)))
    before = corpus.src.ids.tolist()
    shutil.rmtree(tmp_path / "cache")
    assert corpus.src.ids.tolist() == before

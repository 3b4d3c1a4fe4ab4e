"""The sample corpus that comes with the package."""

import gzip

import pytest

from mtkit.data.sample import SAMPLE_FILE, read_sample, write_sample
from mtkit.errors import DataError


def test_the_parts_have_their_sizes():
    assert {part: len(pairs) for part, pairs in read_sample().items()} == {"train": 24_000, "dev": 500, "test": 500}


def test_written_files_are_parallel(tmp_path):
    write_sample(tmp_path / "sample")
    for part, pairs in read_sample().items():
        en, fr = ((tmp_path / "sample" / f"{part}.{side}").read_bytes().decode("utf-8") for side in ("en", "fr"))
        assert en.endswith("\n") and "\r" not in en + fr
        assert list(zip(en.splitlines(), fr.splitlines(), strict=True)) == pairs
    names = [f"{part}.{side}" for part in ("dev", "test", "train") for side in ("en", "fr")]
    assert sorted(path.name for path in (tmp_path / "sample").iterdir()) == names


@pytest.mark.parametrize("cut", [True, False])
def test_a_damaged_file_is_refused_by_name(tmp_path, cut):
    damaged_file = tmp_path / "sample.tsv.gz"
    content = SAMPLE_FILE.read_bytes()
    damaged_file.write_bytes(content[:-1000] if cut else gzip.compress(gzip.decompress(content) + b"dev\ta\tb\n"))
    with pytest.raises(DataError, match="sha256") as raised:
        read_sample(damaged_file)
    assert str(damaged_file) in str(raised.value)

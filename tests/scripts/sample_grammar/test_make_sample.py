"""The file in the package is what the grammar generates."""

import gzip
import zlib

import pytest
from make_sample import compress, sample_text

from mtkit.data.sample import SAMPLE_FILE


@pytest.fixture(scope="module")
def text() -> str:
    return sample_text()


def test_the_grammar_makes_the_text_of_the_file_again(text: str) -> None:
    assert gzip.decompress(SAMPLE_FILE.read_bytes()).decode("utf-8") == text


@pytest.mark.slow  # the test above compares the text
@pytest.mark.skipif("ng" in zlib.ZLIB_RUNTIME_VERSION, reason="zlib-ng compresses otherwise than zlib")
def test_the_file_is_made_again_byte_for_byte(text: str) -> None:
    assert SAMPLE_FILE.read_bytes() == compress(text)

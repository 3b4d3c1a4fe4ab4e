"""The built-in English-French corpus, with which `mtkit demo` needs no download; scripts/make_sample.py creates its
file.
"""

import gzip
import hashlib
from pathlib import Path

from mtkit.errors import DataError
from mtkit.pair_files.compression import open_output

SAMPLE_FILE = Path(__file__).with_name("sample.tsv.gz")  # columns: part, English, French
SAMPLE_SHA256 = "9f2ebe0df9c2f99a21fbf0731f04a7aed154a41786b90126230c129231493488"  # of the file's bytes
PARTS = ("train", "dev", "test")
LANGUAGES = ("en", "fr")

DEMO_PAIRS = (  # what the demo translates at the end: in no part of the corpus, although all their words are
    ("I love oranges.", "J'aime les oranges."),
    ("Where are my keys?", "Où sont mes clés ?"),
    ("She didn't buy a red car.", "Elle n'a pas acheté de voiture rouge."),
    ("My sister went to the market yesterday.", "Ma sœur est allée au marché hier."),
    ("He gave me an old book.", "Il m'a donné un vieux livre."),
    ("There are three cats under the bed.", "Il y a trois chats sous le lit."),
    ("Alice is taller than Paul.", "Alice est plus grande que Paul."),
)


def read_sample(file: Path = SAMPLE_FILE) -> dict[str, list[tuple[str, str]]]:
    """Return the English-French pairs of train, dev and test.

    Raises DataError if the file differs from the released one.
    """
    content = file.read_bytes()
    if (checksum := hashlib.sha256(content).hexdigest()) != SAMPLE_SHA256:
        raise DataError(f"{file}: its sha256 is {checksum}, not {SAMPLE_SHA256}; install mtkit again")
    pairs: dict[str, list[tuple[str, str]]] = {part: [] for part in PARTS}
    for line in gzip.decompress(content).decode("utf-8").splitlines():
        part, english, french = line.split("\t")
        pairs[part].append((english, french))
    return pairs


def write_sample(folder: Path) -> None:
    """Write train, dev and test as PART.en and PART.fr into the folder."""
    for part, pairs in read_sample().items():
        for side, language in enumerate(LANGUAGES):
            with open_output(folder / f"{part}.{language}") as output:
                output.writelines(f"{pair[side]}\n" for pair in pairs)

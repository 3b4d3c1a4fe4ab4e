"""Bring the Tatoeba English-French corpus into data/tatoeba-en-fr: everyday sentences, as train, dev and test.

    .venv/bin/python scripts/get_tatoeba.py                # downloads today's pairs and splits them
    .venv/bin/python scripts/get_tatoeba.py --zip FILE     # the same with a fra-eng.zip that you have
    .venv/bin/python scripts/get_tatoeba.py --from FOLDER  # copies the split that mtkit's published scores are on

The download grows over the years: scores on its split are comparable with each other only.
"""

import argparse
import io
import random
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from corpus_files import DATA, copy_verified, download, is_complete, run, write_licence

from mtkit.console import log
from mtkit.errors import DataError
from mtkit.pair_files.compression import open_output

URL = "https://www.manythings.org/anki/fra-eng.zip"
N_HELD_OUT = 2000  # pairs in dev, and in test
SEED = 1
# Sentences with this many translations and paraphrases stay in train: one of them would be a large part of dev.
MAX_GROUP = 20

# The split of the packaging of 2019-04-08, less what occurs in public Tatoeba test sets: 149,231 / 2,000 / 2,000 pairs.
CHECKSUMS = {
    "train.en.gz": "9590f650b0ecbab69d0b425efc901f960f2ee7d55ee1f9a24c397bffb4779a99",
    "train.fr.gz": "e73b747c01a224caa1fb7a14972c0724e61679062fe2e4fe1d543c5be9642816",
    "dev.en.gz": "373d849ef55d6a0cee668ca1ba4030c6e2f356769d956e7359e27624ecf88f50",
    "dev.fr.gz": "41050b658c4d4d6e51f0d59849eed21d2b362e91e565ae8d16da9b8f4c3873e8",
    "test.en.gz": "6ae8065d67716342390b3a81b563690842293a7d85b78464f880e15970a84377",
    "test.fr.gz": "5e433cabe88a4cc45a2f4534156e42535e6816a5cd9daa7d4c1dd0d2fd884bd0",
}

LICENCE = """\
English-French sentence pairs by volunteers of the Tatoeba project (https://tatoeba.org), as packaged by
https://www.manythings.org/anki/ ; white space at line ends stripped, split into train, dev and test.

Licence: Creative Commons Attribution 2.0 France (CC BY 2.0 FR), https://creativecommons.org/licenses/by/2.0/fr/
Attribution: tatoeba.org and www.manythings.org/anki
"""


class Pair(NamedTuple):
    """A sentence and its translation."""

    en: str
    fr: str


def read_zip(content: bytes) -> list[Pair]:
    """Return the pairs of a fra-eng.zip, each once: its fra.txt has English, tab, French and perhaps more columns."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            lines = archive.read("fra.txt").decode("utf-8").split("\n")
    except (zipfile.BadZipFile, zlib.error, KeyError, UnicodeDecodeError) as error:
        raise DataError(f"not the fra-eng.zip of manythings.org: {error}") from error
    columns = [line.split("\t") for line in lines if line.strip()]
    if any(len(fields) < 2 for fields in columns):
        raise DataError("not the fra-eng.zip of manythings.org: a line of its fra.txt has no tab")
    pairs = (Pair(fields[0].strip(), fields[1].strip()) for fields in columns)
    return list(dict.fromkeys(pair for pair in pairs if pair.en and pair.fr))


def split(pairs: Sequence[Pair], n_held_out: int, seed: int) -> dict[str, list[Pair]]:
    """Split pairs into train, dev and test, in their old order; dev and test have n_held_out pairs each.

    No sentence occurs in two of the parts on either side, case and punctuation ignored: pairs that share a sentence
    stay together. Raises DataError if there are too few pairs.
    """
    groups = [group for group in _groups(pairs) if len(group) <= MAX_GROUP]
    random.Random(seed).shuffle(groups)
    part_of = ["train"] * len(pairs)
    for part in ("dev", "test"):
        room = n_held_out
        for group in groups:
            if len(group) <= room and part_of[group[0]] == "train":
                room -= len(group)
                for number in group:
                    part_of[number] = part
        if room:
            raise DataError(f"{len(pairs):,} pairs are too few to set {n_held_out:,} aside for {part}")
    return {
        part: [pair for pair, its_part in zip(pairs, part_of, strict=True) if its_part == part]
        for part in ("train", "dev", "test")
    }


def _groups(pairs: Sequence[Pair]) -> list[list[int]]:
    """Group the indices of the pairs: pairs that share a sentence, directly or through others, form a group."""
    parents = list(range(len(pairs)))

    def find(number: int) -> int:
        while parents[number] != number:
            parents[number] = parents[parents[number]]
            number = parents[number]
        return number

    first_with: dict[tuple[str, str], int] = {}
    for number, pair in enumerate(pairs):
        for language, sentence in zip(Pair._fields, pair, strict=True):
            other = first_with.setdefault((language, bare(sentence)), number)
            parents[find(number)] = find(other)
    groups: dict[int, list[int]] = {}
    for number in range(len(pairs)):
        groups.setdefault(find(number), []).append(number)
    return list(groups.values())


def bare(sentence: str) -> str:
    """Return the sentence without case and punctuation."""
    return " ".join("".join(char if char.isalnum() else " " for char in sentence.casefold()).split())


def get(source: Path | None, archive: Path | None, folder: Path) -> None:
    """Make the six files and the licence in the folder, from whichever source is given."""
    if source is not None:
        copy_verified(source, folder, CHECKSUMS)
    elif archive is None and is_complete(folder, CHECKSUMS):
        log.info(f"{folder}: the six files are there already")
    else:
        instead = "get it some other way and give it with --zip, or the finished files with --from"
        try:
            pairs = read_zip(archive.read_bytes() if archive else download(URL, instead))
        except OSError as error:
            raise DataError(f"{archive}: cannot be read ({error.strerror})") from error
        for part, chosen in split(pairs, N_HELD_OUT, SEED).items():
            for language in Pair._fields:
                with open_output(folder / f"{part}.{language}.gz") as file:
                    file.writelines(getattr(pair, language) + "\n" for pair in chosen)
            log.info(f"{folder}: {part} has {len(chosen):,} pairs")
    write_licence(folder, LICENCE)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given = parser.add_mutually_exclusive_group()
    given.add_argument("--from", dest="source", type=Path, metavar="FOLDER", help="folder with the six .gz files")
    given.add_argument("--zip", dest="archive", type=Path, metavar="FILE", help="a fra-eng.zip from manythings.org")
    parser.add_argument(
        "--to", type=Path, default=DATA / "tatoeba-en-fr", metavar="FOLDER", help="default: %(default)s"
    )
    args = parser.parse_args()
    run(lambda: get(args.source, args.archive, args.to))


if __name__ == "__main__":
    main()

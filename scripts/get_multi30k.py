"""Bring Multi30k (task 1, raw text; English, German, French image captions) into data/multi30k.

    .venv/bin/python scripts/get_multi30k.py                # downloads the nine files
    .venv/bin/python scripts/get_multi30k.py --from FOLDER  # copies them
    .venv/bin/python scripts/get_multi30k.py --tokenised    # also the form in which published scores are measured

Its terms allow non-commercial research and teaching only: they are written beside it.
"""

import argparse
import gzip
import hashlib
import tempfile
import zlib
from pathlib import Path

from corpus_files import DATA, copy_verified, download, is_complete, run, write_all, write_licence

from mtkit.console import log
from mtkit.errors import DataError

URL = "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw/"
CHECKSUMS = {
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.fr.gz": "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.fr.gz": "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.fr.gz": "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
}

# The same lines, lower-cased, normalised and tokenised by the data's authors: sha256 of the text, not of the .gz.
TOKENISED_URL = URL.replace("/raw/", "/tok/")
TOKENISED = {
    "train.lc.norm.tok.en": "08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119",
    "train.lc.norm.tok.de": "cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505",
    "train.lc.norm.tok.fr": "8fa41bb718412bcb7c5dfa58603842810a01543eae86a51279f9886b901266e1",
    "val.lc.norm.tok.en": "46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec",
    "val.lc.norm.tok.de": "97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00",
    "val.lc.norm.tok.fr": "b303e301aa21fe7822a846b2b3fb2d5a1121ec807cd5b1d006fb7b2b5507168a",
    "test_2016_flickr.lc.norm.tok.en": "5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2",
    "test_2016_flickr.lc.norm.tok.de": "c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4",
    "test_2016_flickr.lc.norm.tok.fr": "1463bd5960f9bfe098ec3cd752d3df0c49c84dc646fb518964a29232658cd836",
}

LICENCE = """\
Multi30k, task 1, raw text: https://github.com/multi30k/dataset

Partly derived from Flickr30K, and provided "solely ... for researchers and educators who wish to use the dataset for
non-commercial research and/or educational purposes": train and report with it; ship neither it nor text from it.

Cite: Elliott et al. 2016 (W16-3210) for English-German, Elliott et al. 2017 (W17-4718) for French.
"""


def get(source: Path | None, folder: Path) -> None:
    """Make the nine files and the licence in the folder, from another folder or from the network."""
    if source is not None:
        copy_verified(source, folder, CHECKSUMS)
    elif is_complete(folder, CHECKSUMS):
        log.info(f"{folder}: the nine files are there already")
    else:
        instead = "get the files some other way and give their folder with --from"
        with tempfile.TemporaryDirectory() as downloads:
            write_all(Path(downloads), {name: download(URL + name, instead) for name in CHECKSUMS})
            copy_verified(Path(downloads), folder, CHECKSUMS)
    write_licence(folder, LICENCE)


def get_tokenised(source: Path | None, folder: Path) -> None:
    """Make the tokenised files in the folder, as NAME.gz, from another folder's NAME.gz or from the network."""
    contents = {}
    for name, expected in TOKENISED.items():
        if source is None:
            text = download(TOKENISED_URL + name, "give a folder that holds them as .gz with --from")
        elif (source / f"{name}.gz").is_file():
            try:
                text = gzip.decompress((source / f"{name}.gz").read_bytes())
            except (OSError, EOFError, zlib.error) as error:
                raise DataError(f"{source / name}.gz: cannot be unpacked ({error}); copy it again") from error
        else:
            raise DataError(f"{source / name}.gz: no such file")
        if hashlib.sha256(text).hexdigest() != expected:
            raise DataError(
                f"{name}: another version, or damaged: the sha256 of its text is not {expected}; get the file again"
            )
        contents[f"{name}.gz"] = gzip.compress(text, mtime=0)
    write_all(folder, contents)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="source", type=Path, metavar="FOLDER", help="folder with the nine .gz files")
    parser.add_argument("--to", type=Path, default=DATA / "multi30k", metavar="FOLDER", help="default: %(default)s")
    parser.add_argument("--tokenised", action="store_true", help="also the lower-cased, tokenised files")
    args = parser.parse_args()
    run(lambda: get(args.source, args.to))
    if args.tokenised:
        run(lambda: get_tokenised(args.source, args.to))


if __name__ == "__main__":
    main()

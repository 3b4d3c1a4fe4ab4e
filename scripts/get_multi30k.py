"""Brings Multi30k (task 1, raw text; English, German, French image captions) into data/multi30k.

    .venv/bin/python scripts/get_multi30k.py                # downloads the nine files
    .venv/bin/python scripts/get_multi30k.py --from FOLDER  # copies them

Its terms allow non-commercial research and teaching only: they are written beside it.
"""

import argparse
import tempfile
from pathlib import Path

from corpus_files import DATA, copy_verified, download, is_complete, run, write_all, write_licence

from mtkit.console import log

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


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="source", type=Path, metavar="FOLDER", help="folder with the nine .gz files")
    parser.add_argument("--to", type=Path, default=DATA / "multi30k", metavar="FOLDER", help="default: %(default)s")
    args = parser.parse_args()
    run(lambda: get(args.source, args.to))


if __name__ == "__main__":
    main()

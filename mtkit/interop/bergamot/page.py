"""Write a page that translates in the browser: the page, the model, and the engine from its npm package.

Any server of static files can host the folder. The engine needs one thread and no special headers. Where a browser
allows it (by HTTPS, or from this machine), it keeps the files, so that the page also opens without a network.
"""

import base64
import hashlib
import json
import shutil
from pathlib import Path

from mtkit.bundle import BundleFiles
from mtkit.console import log
from mtkit.errors import MtkitError
from mtkit.files import sha256_file, write_text
from mtkit.interop.bergamot import reading
from mtkit.interop.handover import README
from mtkit.languages import english_name
from mtkit.pages.page import environment, write_page
from mtkit.tokens.word_record import WordRecord

PACKAGE = "@browsermt/bergamot-translator"
VERSION = "0.4.9"  # the version that we tested
MODEL = "model"  # folder of the model, inside that of the page
_WORDS = "words.bin"
_KEEPER = "offline.js"
_ENGINE = ("translator-worker.js", "bergamot-translator-worker.js", "bergamot-translator-worker.wasm")
_LICENCE = """\
The files in this folder are Bergamot Translator {version}, unchanged from the npm package {package}.

Licence: Mozilla Public License 2.0, https://www.mozilla.org/MPL/2.0/
Source: https://github.com/browsermt/bergamot-translator
"""


def check_engine(engine: Path) -> None:
    """Raise MtkitError, with the command that fetches it, unless this is the folder of the engine's package."""
    if missing := [name for name in ("package.json", *_in_package()) if not (engine / name).is_file()]:
        raise MtkitError(
            f"{engine}: not the engine, because {missing[0]} is missing; run `npm install {PACKAGE}@{VERSION}` in the "
            f"current folder, or give the engine's folder with --engine, such as --engine node_modules/{PACKAGE}"
        )


def write_translator(folder: Path, files: BundleFiles, engine: Path) -> None:
    """Write the page and the engine into the folder, which has the bundle's model for Bergamot in the folder `model`.

    engine: the folder of the npm package.
    """
    cfg = files.config
    (folder / "engine").mkdir()
    if (readme := folder / MODEL / README).exists():
        readme.rename(folder / README)  # it says what the page does not do, so it belongs next to the page
    for name in _in_package():
        shutil.copyfile(engine / name, folder / "engine" / Path(name).name)
    version = json.loads((engine / "package.json").read_text(encoding="utf-8")).get("version", "")
    write_text(folder / "engine" / "LICENCE.txt", _LICENCE.format(version=version, package=PACKAGE))
    names = [path.name for path in sorted((folder / MODEL).glob("*.*"))]
    vocabularies = [name for name in names if name.endswith(".spm")]  # srcvocab comes before trgvocab
    [model] = [name for name in names if name.startswith("model.")]
    [shortlist] = [name for name in names if name.startswith("lex.")]
    words = reading.words_of_bundle(files)
    if words is not None:
        reading.write_words(folder / _WORDS, words)
    _log_reading(folder / _WORDS, words)
    n_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    src, tgt = ({"code": code, "name": english_name(code) or code} for code in (cfg.data.src_lang, cfg.data.tgt_lang))
    write_page(
        folder / "index.html",
        "browser",
        title=f"{src['name']} to {tgt['name']}",
        src=src,
        tgt=tgt,
        raises_small=files.has_few_lines_in_small_letters,
        rules=reading.rules(files),
        as_typed=cfg.decode.as_typed,
        files={
            "model": f"{MODEL}/{model}",
            "shortlist": f"{MODEL}/{shortlist}",
            "vocabs": [f"{MODEL}/{name}" for name in vocabularies],
            "words": None if words is None else _WORDS,
        },
        megabytes=f"{n_bytes / 1e6:.1f}",
    )
    write_keeper(folder)


def _log_reading(path: Path, words: WordRecord | None) -> None:
    """Log what the page reads as other text."""
    if words is None:
        log.warning("the bundle has no words.npz, so the page reads typos and missing final marks as they are")
        return
    marks = " and missing final marks" if words.openings else ""
    log.info(
        f"the page reads typos{marks} as `mtkit translate` does, by {path.name} ({path.stat().st_size / 1e3:.0f} kB)"
    )


def write_keeper(folder: Path) -> None:
    """Write the service worker that keeps the page's files on the device."""
    kept = sorted(path for path in folder.rglob("*") if path.suffix in (".js", ".wasm", ".bin", ".spm"))
    kept = [path for path in kept if path.name != _KEEPER]
    sums = {path.relative_to(folder).as_posix(): bytes.fromhex(sha256_file(path)) for path in kept}
    version = hashlib.sha256(b"".join([bytes.fromhex(sha256_file(folder / "index.html")), *sums.values()])).hexdigest()
    # The page itself has no checksum, because some servers add a script to each page.
    files = {"./": ""} | {name: f"sha256-{base64.b64encode(checksum).decode()}" for name, checksum in sums.items()}
    script = environment().get_template("offline.js.j2").render(files=files, of_version=version)
    write_text(folder / _KEEPER, script)


def _in_package() -> list[str]:
    return [f"worker/{name}" for name in _ENGINE]

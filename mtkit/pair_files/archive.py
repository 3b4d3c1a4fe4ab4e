"""Read zip files of parallel text as OPUS offers them: NAME.en-fr.en with NAME.en-fr.fr, or one TMX or the like."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from mtkit.errors import DataError
from mtkit.languages import are_one_language, language_in_name, languages_in_name
from mtkit.pair_files import moses, one_file
from mtkit.pair_files.compression import DAMAGE, unpacked
from mtkit.pair_files.pairs import Languages, Pair, Tally

_MOST_RATIO = 200  # text becomes 3 to 10 times larger
_MAC_FOLDER = "__MACOSX/"  # of macOS: a file of attributes for each file
_HARMLESS_BYTES = 10_000_000  # unpacked, whatever the ratio


class _Corpus(NamedTuple):
    """The names of the members with the two sides, or of one with both; the languages if the names have them."""

    members: tuple[str, ...]
    langs: Languages | None


def pairs(path: Path, langs: Languages | None, tally: Tally) -> Iterator[Pair]:
    """Yield the pairs of the archive's only corpus in these languages, without unpacking to disk."""
    with _opened(path) as archive:
        corpus = _only_corpus(path, archive, langs)
        _check_sizes(path, archive, corpus)
        names = [_name(path, member) for member in corpus.members]
        if len(names) == 1:
            with _member(path, archive, corpus.members[0], tally) as file:
                extension = one_file.extension(Path(corpus.members[0]))
                yield from one_file.pairs(file, extension, names[0], langs, tally)
            return
        src_member, tgt_member = corpus.members
        with _member(path, archive, src_member, tally) as src, _member(path, archive, tgt_member) as tgt:
            yield from moses.pairs(src, names[0], tgt, names[1], tally)


def own_languages(path: Path) -> Languages | None:
    """Return the languages of the archive's only corpus; None if they are not two."""
    with _opened(path) as archive:
        corpus = _only_corpus(path, archive, None)
        if corpus.langs or len(corpus.members) == 2:
            return corpus.langs
        _check_sizes(path, archive, corpus)
        with _member(path, archive, corpus.members[0]) as file:
            return one_file.own_languages(
                file, one_file.extension(Path(corpus.members[0])), _name(path, corpus.members[0])
            )


def _only_corpus(path: Path, archive: zipfile.ZipFile, langs: Languages | None) -> _Corpus:
    members = [info.filename for info in archive.infolist() if not info.is_dir()]
    members = [name for name in members if not name.startswith(_MAC_FOLDER)]
    corpora = [*_text_files(members, langs)]
    corpora += [
        _Corpus((member,), None) for member in members if one_file.extension(Path(member)) in one_file.EXTENSIONS
    ]
    if len(corpora) == 1:
        for member in corpora[0].members:
            if members.count(member) > 1:
                raise DataError(f"{path}: contains {_shown(member)} twice; unzip it and give the files that you mean")
        return corpora[0]
    listed = ", ".join(map(_shown, members[:10])) + (", ..." if len(members) > 10 else "")
    if not members:
        raise DataError(f"{path}: contains no files")
    if not corpora:
        wanted = f" in {langs[0]} and {langs[1]}" if langs else ""
        raise DataError(f"{path}: no corpus{wanted}, such as NAME.en-fr.en with NAME.en-fr.fr; it contains {listed}")
    names = " and ".join(_shown(corpus.members[0]) for corpus in corpora[:5])
    raise DataError(f"{path}: {len(corpora)} corpora, such as {names}; unzip it and give the files of one of them")


def _text_files(members: list[str], langs: Languages | None) -> Iterator[_Corpus]:
    """Yield the pairs of text files whose names differ in the language alone."""
    by_stem: dict[str, dict[str, str]] = {}
    for member in members:
        if code := language_in_name(Path(member)):
            by_stem.setdefault(member[: -len(code)], {})[code] = member
    for stem, by_code in by_stem.items():
        order = langs or languages_in_name(Path(stem)) or tuple(by_code)
        chosen = [next((m for code, m in by_code.items() if are_one_language(code, lang)), None) for lang in order]
        if len(chosen) == 2 and chosen[0] and chosen[1] and chosen[0] != chosen[1]:
            yield _Corpus((chosen[0], chosen[1]), (order[0], order[1]))


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open the archive; convert errors in it to a DataError."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (zipfile.BadZipFile, *DAMAGE, NotImplementedError, ValueError) as error:
        raise DataError(f"{path}: not a zip file, or damaged ({error}); copy it again, as a whole") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None


def _check_sizes(path: Path, archive: zipfile.ZipFile, corpus: _Corpus) -> None:
    """Raise DataError if the members of a corpus are packed far smaller than text can be."""
    infos = [archive.getinfo(member) for member in corpus.members]
    n_packed, n_bytes = sum(info.compress_size for info in infos), sum(info.file_size for info in infos)
    if n_bytes > _HARMLESS_BYTES and n_bytes > _MOST_RATIO * n_packed:
        names = " and ".join(map(_shown, corpus.members))
        raise DataError(
            f"{path}:{names}: {n_packed:,} bytes that unpack to {n_bytes:,}, as in a zip bomb (text: 3 to 10 times as "
            "many); if you trust it, unzip it yourself and give the files"
        )


@contextmanager
def _member(path: Path, archive: zipfile.ZipFile, member: str, tally: Tally | None = None) -> Iterator[BinaryIO]:
    """Open a member. tally: counts how much of the archive has been read."""
    info = archive.getinfo(member)
    if info.flag_bits & 1:
        raise DataError(f"{_name(path, member)}: encrypted; unzip it with its password first")
    with archive.open(info) as packed, unpacked(cast(BinaryIO, packed), Path(member).suffix.lower()) as file:
        if tally is not None:
            n_on_disk = path.stat().st_size  # the member's own share would leave out the other side's
            tally.n_bytes_read = lambda: 0 if packed.closed else n_on_disk * packed.tell() // max(1, info.file_size)
        yield file


def _name(path: Path, member: str) -> str:
    return f"{path}:{_shown(member)}"


def _shown(member: str) -> str:
    return member if member.isprintable() else ascii(member)

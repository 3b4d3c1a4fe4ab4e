"""Turn the corpora that a command names (files, pairs of files, configs) into CorpusFiles and their two languages."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from mtkit.config.data import UNNAMED, CorpusFiles
from mtkit.config.reading.loading import load_config
from mtkit.console import log
from mtkit.errors import DataError, UsageError
from mtkit.languages import (
    are_one_language,
    codes_like,
    english_name,
    language_in_name,
    languages_in_name,
    may_be_code,
    normal_code,
)
from mtkit.pair_files.corpus_files import own_languages
from mtkit.pair_files.lines import require_regular
from mtkit.pair_files.one_file import EXTENSIONS, extension
from mtkit.pair_files.pairs import Languages

_LONGEST_SHOWN = 70  # characters of --langs


def find_corpora(
    arguments: Sequence[Path],
    langs: str | None = None,
    encodings: Sequence[str] = (),
    *,
    needs_translations: bool = True,
) -> tuple[list[CorpusFiles], Languages]:
    """Return the corpora and their source and target language; UNNAMED if nothing shows the languages.

    An argument is a file with both sides, a config (its data.train is meant), or one of two text files in a row, the
    sides of one corpus. langs: such as "en-de"; default: a config's languages, those in the names of the files, or the
    files' own if they have two. encodings: of files that are not in UTF-8. Two text files whose names end in the
    languages the other way round change places. needs_translations: of all corpora of a config.
    Raises DataError for a file that does not exist, UsageError for arguments that do not fit together.
    """
    wanted = None if langs is None else parse_langs(langs)
    files: list[CorpusFiles] = []
    configured: list[Languages] = []
    for argument in _grouped(arguments):
        if isinstance(argument, tuple):
            files.append(_two_files(*argument, wanted))
        elif argument.suffix in (".yaml", ".yml"):
            data = load_config(argument).data
            if needs_translations and any(corpus.is_untranslated for corpus in data.train):
                raise _untranslated(argument, data.train)
            files += data.train
            configured += [(data.src_lang, data.tgt_lang)] * ((data.src_lang, data.tgt_lang) != UNNAMED)
        elif extension(argument) == ".tsv":
            files.append(CorpusFiles(tsv=argument))
        else:
            files.append(CorpusFiles(file=argument))
    for path in (path for corpus in files for path in corpus.paths):
        if not path.exists():
            raise DataError(f"{path}: no such file")
    found = wanted or _common([*configured, *(named for corpus in files if (named := _languages(corpus, encodings)))])
    return [_with_languages(corpus, found) for corpus in files], found


def require_regular_files(corpora: Sequence[CorpusFiles]) -> None:
    """Raise DataError for what can be read only once, such as a pipe."""
    for path in (path for corpus in corpora for path in corpus.paths):
        require_regular(path)


def check_plain_text(path: Path) -> None:
    """Raise UsageError if this is a file with both sides, by its file extension."""
    if extension(path) in (*EXTENSIONS, ".zip"):
        raise UsageError(
            f"{path}: not plain text, by its name; a file with both sides becomes two with: mtkit data convert "
            f"{path} -o SRC -o TGT"
        )


def check_text_files(src: Path, tgt: Path) -> None:
    """Raise UsageError if these are not two files of plain text, by their file extensions."""
    check_plain_text(src)
    check_plain_text(tgt)
    if src == tgt:
        raise UsageError(f"{src}: named twice; give source and target")


def languages_of(src: Path, tgt: Path, langs: str | None) -> Languages:
    """Return --langs, or the languages in the names of two text files; UNNAMED if a name has none."""
    named = language_in_name(src), language_in_name(tgt)
    if langs is not None:
        return parse_langs(langs)
    return UNNAMED if None in named else (named[0] or "", named[1] or "")


def parse_langs(text: str) -> Languages:
    """Return the two codes in "en-de", "en-pt_BR" or, for codes with hyphens, "en,pt-BR"; warn about unknown ones.

    Raises UsageError if they are not two.
    """
    codes = [code.strip() for code in (text.split(",") if "," in text else text.split("-"))]
    is_sane = 0 < len(text) <= _LONGEST_SHOWN and text.isprintable()
    if len(codes) != 2 or not all(codes) or not is_sane:
        raise UsageError(
            f"--langs {text if is_sane else repr(text[:_LONGEST_SHOWN])}: give two language codes, source first, such "
            "as en-de; with a comma if a code has a hyphen: en,pt-BR"
        )
    if normal_code(codes[0]) == normal_code(codes[1]):
        hint = f"; is a language missing, such as {codes[0]}-{codes[1]},en?" if codes[1].isupper() else ""
        raise UsageError(f"--langs {text}: source and target are the same language{hint}")
    for code in codes:
        if code not in UNNAMED and not may_be_code(code):
            meant = " or ".join(f"{near} ({english_name(near)})" for near in codes_like(code))
            hint = f"did you mean {meant}?" if meant else "codes are en, de, pt-BR, zh_Hant, and the like (ISO 639)"
            log.warning(f"--langs {text}: {code} is not a language code; {hint}")
    return codes[0], codes[1]


def _grouped(arguments: Sequence[Path]) -> Iterator[Path | tuple[Path, Path]]:
    """Yield configs and files with both sides, and text files two by two."""
    remaining = iter(arguments)
    for first in remaining:
        if first.suffix in (".yaml", ".yml") or extension(first) in (*EXTENSIONS, ".zip"):
            yield first
            continue
        second = next(remaining, None)
        if second is None or second.suffix in (".yaml", ".yml") or extension(second) in (*EXTENSIONS, ".zip"):
            raise UsageError(f"{first}: {_lone(first)}")
        if first == second:
            raise UsageError(f"{first}: named twice in a row; give source and target")
        yield first, second


def _lone(path: Path) -> str:
    """Return what is wrong with a path that is neither a config nor a file with both sides, and has no partner."""
    from mtkit.memory.index import is_memory  # here, because most commands use no memory

    if path.is_dir():
        return "this is a folder; give the files in it"
    if path.is_file() and is_memory(path):
        return "a memory that `mtkit memory build` has written; give the files that it was built from"
    return (
        "one side of a corpus? Text files go in pairs, such as train.en train.de; a file with both sides has the "
        f"extension {', '.join((*EXTENSIONS, '.zip'))}"
    )


def _untranslated(config: Path, corpora: Sequence[CorpusFiles]) -> UsageError:
    alone = ", ".join(str(corpus.src) for corpus in corpora if corpus.is_untranslated)
    others = " ".join(str(path) for corpus in corpora if not corpus.is_untranslated for path in corpus.paths)
    remedy = f"give the corpora with translations instead of the config: {others}" if others else "give other corpora"
    return UsageError(f"{config}: this command needs translations, but {alone} has none (tgt: null); {remedy}")


def _two_files(first: Path, second: Path, wanted: Languages | None) -> CorpusFiles:
    named = language_in_name(first) or "", language_in_name(second) or ""
    if wanted and are_one_language(named[0], wanted[1]) and are_one_language(named[1], wanted[0]):
        first, second = second, first
    return CorpusFiles(src=first, tgt=second)


def _languages(corpus: CorpusFiles, encodings: Sequence[str]) -> Languages | None:
    """Return the languages that a corpus' file names, or the file itself, show."""
    if corpus.src and corpus.tgt:
        src, tgt = language_in_name(corpus.src), language_in_name(corpus.tgt)
        return (src, tgt) if src and tgt else None
    named = languages_in_name(corpus.paths[0])
    return corpus.langs or named or (own_languages(corpus.file, encodings) if corpus.file else None)


def _common(languages: Sequence[Languages]) -> Languages:
    """Return the languages that all corpora have. Raises UsageError if they differ."""
    if not languages:
        return UNNAMED
    first = languages[0]
    for other in languages:
        if not all(are_one_language(*codes) for codes in zip(first, other, strict=True)):
            raise UsageError(
                f"the corpora have different languages, {'-'.join(first)} and {'-'.join(other)}; name the two that are "
                "meant with --langs, source first"
            )
    return first


def _with_languages(corpus: CorpusFiles, langs: Languages) -> CorpusFiles:
    return corpus if corpus.langs or not corpus.file or langs == UNNAMED else corpus.model_copy(update={"langs": langs})

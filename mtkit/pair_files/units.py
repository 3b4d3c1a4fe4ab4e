"""Choose the two languages wanted among the texts of each unit of a multilingual file."""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mtkit.errors import DataError
from mtkit.languages import (
    CHINESE,
    are_one_language,
    code_of_name,
    english_name,
    is_code,
    may_be_code,
    normal_code,
    primary_code,
)
from mtkit.pair_files.pairs import Languages, Pair, Tally, segment

ANY = "*"  # the code of a text whose language is not in the file
_IDENTIFIER = re.compile(r"(?=.*\d)\S+|")
_EMPTY = "with empty "  # begins the reason of a unit whose text is blank
_UNNAMED = (ANY, "src", "tgt")
_LOOKED_AT = 1000  # units, to see which languages a file has


class Unit(NamedTuple):
    """Texts with the same meaning, each with its language code; "src" and "tgt" are also codes."""

    number: int  # from 1: of the line, or of the unit in the file
    texts: list[tuple[str, str]]


def pairs_of(units: Iterable[Unit], name: str, langs: Languages | None, tally: Tally) -> Iterator[Pair]:
    """Yield the pair of each unit that has both languages; count the others in the tally.

    A code means the language asked for as in `are_one_language`; the same code is preferred: for pt-BR, a unit's
    pt-BR is taken rather than its pt. langs: None takes those of the file, which must have two.
    Raises DataError, at the end, if no unit has both languages.
    """
    iterator = iter(units)
    ahead: list[Unit] = []
    if langs is None:
        ahead = list(itertools.islice(iterator, _LOOKED_AT))
        langs = _only_two(ahead, name)
    roles, n_pairs = _Roles(langs), 0
    for unit in itertools.chain(ahead, iterator):
        tally.n_units += 1
        (src, tgt), codes = _chosen(unit, roles, tally)
        if src and tgt and (src := segment(src)).strip() and (tgt := segment(tgt)).strip():
            n_pairs += 1
            for lang, code in zip(langs, codes, strict=True):
                if code not in _UNNAMED:
                    tally.joined.setdefault(lang, Counter())[code] += 1
            yield Pair(src, tgt, name, unit.number)
        else:
            tally.left_out[_reason(langs, src, tgt)] += 1
    if tally.languages and not n_pairs:
        empty = ", ".join(f"{n:,} {reason}" for reason, n in tally.left_out.items() if reason.startswith(_EMPTY))
        raise DataError(
            f"{name}: no unit has text in both {langs[0]} and {langs[1]}{f' ({empty})' if empty else ''}; the "
            f"languages there are {_listed(tally.languages)}"
        )


def _reason(langs: Languages, src: str | None, tgt: str | None) -> str:
    for lang, text in zip(langs, (src, tgt), strict=True):
        if text is None:
            return f"without {lang}"
    return f"{_EMPTY}{langs[1] if src and src.strip() else langs[0]}"


def language_of_column(name: str) -> str:
    """Return the code of the language that a column or key names, "src" or "tgt"; "" if it names none.

    Names are those of mtkit and of other tools: en, eng_Latn, sentence_en, English, English (US), source, source text.
    """
    name = _AROUND_LANGUAGE.sub("", name.strip())
    word = name.lower()
    if word in ("src", "source"):
        return "src"
    if word in ("tgt", "trg", "target"):
        return "tgt"
    is_known = may_be_code(word) and english_name(word) is not None
    return name if is_known or is_code(word) else code_of_name(word) or ""


def header_of(cells: Sequence[str]) -> list[str] | None:
    """Return the codes that the cells of a header name, "" for the others; None if it is not one of two languages."""
    codes = [language_of_column(cell) for cell in cells]
    named = {*codes} - {""}
    is_of_one_side = named in ({"id", "src"}, {"id", "tgt"})  # and of identifiers
    return codes if len(named) >= 2 and not is_of_one_side else None


def is_like_header(cells: Sequence[str]) -> bool:
    """Return whether the cells look like a header of other columns than two languages: id, comment, Deutsch."""
    words = [cell.strip().lower() for cell in cells]
    return any(word in ("source", "target") or code_of_name(word) for word in words) or all(
        word in _OTHER_COLUMNS or language_of_column(word) for word in words
    )


# What stands around a language in the name of a column: sentence_en, English text, English (United States).
_AROUND_LANGUAGE = re.compile(r"^(?:sentence|text|segment)[ _-]|(?:[ _-](?:sentence|text|segment)| *\([^()]*\))$", re.I)
_OTHER_COLUMNS = frozenset(
    (
        *("comment", "comments", "context", "id", "key", "label", "language", "name", "note", "notes", "number"),
        *("original", "score", "segment", "sentence", "text", "translation"),
    )
)


def names_of_columns(langs: Languages) -> Languages:
    """Return column or key names that mtkit can read back: the languages, or src and tgt if a code is unknown."""
    return langs if header_of(langs) == [*langs] else ("src", "tgt")


def own_languages(units: Iterable[Unit]) -> Languages | None:
    """Return the two languages of these units, the first one's first text being the source; None if not just two.

    Codes that differ by region alone are one language, en for en-US and en-GB, unless a unit has text in both.
    """
    codes: dict[str, None] = {}
    has_variants, ids_only = False, True
    for unit in itertools.islice(units, _LOOKED_AT):
        own = dict.fromkeys(_code(index, code) for index, (code, _) in enumerate(unit.texts))
        ids_only &= all(_IDENTIFIER.fullmatch(text) is not None for code, text in unit.texts if code == "id")
        has_variants |= len({*map(_without_region, own)}) < len(own)
        codes |= own
    if ids_only:  # a column of identifiers, not of Indonesian
        codes.pop("id", None)
    if len(codes) > 2 and not has_variants:
        codes = dict.fromkeys(map(_without_region, codes))
    if codes.keys() == {"src", "tgt"}:
        return "src", "tgt"
    if len(codes) != 2:
        return None
    src, tgt = codes
    return src, tgt


def _without_region(code: str) -> str:
    """Return the language of a code; the whole code if it names a script, or a region that may stand for one."""
    bare = primary_code(code)
    has_script = re.search(r"[-_][a-z]{4}\b", code, re.ASCII | re.IGNORECASE)
    return code if has_script or bare in CHINESE else bare


def _code(index: int, code: str) -> str:
    return ("src", "tgt")[index > 0] if code == ANY else code


def _only_two(units: list[Unit], name: str) -> Languages:
    if not units:
        return "src", "tgt"
    if (langs := own_languages(units)) is None:
        counts = Counter(code for unit in units for code, _ in unit.texts)
        listed = _listed(counts)
        of = f" in its first {_LOOKED_AT:,} units" if len(units) == _LOOKED_AT else ""
        if len(counts) == 1:
            raise DataError(f"{name}: text in one language only{of}: {listed}; a pair needs a source and a target")
        raise DataError(
            f"{name}: which two of its languages are meant? They are {listed}{of}. Choose them, source first: "
            "--langs en-de, or data.src_lang and data.tgt_lang in a config"
        )
    return langs


def _listed(languages: Counter[str]) -> str:
    named = [f"{'unknown' if code == ANY else code} ({n:,})" for code, n in languages.most_common(20)]
    return ", ".join(named) or "unknown"


class _Roles(dict[str, "tuple[int, int] | None"]):
    """By language code, the side (0 source, 1 target) that its text can be, and its rank, 0 the best."""

    def __init__(self, langs: Languages) -> None:
        super().__init__()
        self._langs = langs
        self._normal = [normal_code(lang) for lang in langs]

    def __missing__(self, code: str) -> tuple[int, int] | None:
        self[code] = role = self._role(code)
        return role

    def _role(self, code: str) -> tuple[int, int] | None:
        normal = normal_code(code)
        if normal in self._normal:
            return self._normal.index(normal), 0
        for side, lang in enumerate(self._langs):
            if are_one_language(code, lang):
                return side, 1
        return {"src": (0, 2), "tgt": (1, 2)}.get(code)


def _chosen(unit: Unit, roles: _Roles, tally: Tally) -> tuple[list[str | None], list[str]]:
    """Return source and target, and their codes in the file; None: the unit has no such text."""
    texts: list[str | None] = [None, None]
    codes = [ANY, ANY]
    ranks = [3, 3]
    for code, text in unit.texts:
        tally.languages[code] += 1
        role = roles[code]
        if role is None:
            continue
        side, rank = role
        if rank < ranks[side]:
            texts[side], ranks[side], codes[side] = text, rank, code
        elif rank == ranks[side] and text != texts[side]:
            tally.n_variants += 1
    if None in texts:
        for code, text in unit.texts:
            if code == ANY and None in texts:
                texts[texts.index(None)] = text
    return texts, codes

"""JSONL: a JSON object a line, with the keys src and tgt or language codes, also below "translation" (as in OPUS)."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, TextIO

from mtkit.errors import DataError
from mtkit.files import parse_json
from mtkit.formats.lines import lines_of
from mtkit.formats.pairs import Languages, Tally
from mtkit.formats.units import Unit, language_of_column, names_of_columns


def units(file: BinaryIO, name: str, _tally: Tally) -> Iterator[Unit]:
    """Yield the texts of each line by language; blank lines have none.

    Raises DataError, with the line, if it is not a JSON object, or none of its keys names a side or a language.
    """
    codes = _Codes()
    for number, line in enumerate(lines_of(file, name), start=1):
        if not line.strip():
            continue
        values = _object(line, name, number)
        translation = values.get("translation")
        texts = [
            (code, text)
            for key, text in (translation if isinstance(translation, dict) else values).items()
            if (code := codes[key]) and isinstance(text, str)
        ]
        if not texts:
            raise DataError(
                f"{name}: line {number}: no text under src and tgt, or under language codes such as en and de; its "
                f"keys are {', '.join(map(repr, list(values)[:10])) or 'none'}"
            )
        if "\\ud" in line.lower():
            _check_surrogates(texts, name, number)
        yield Unit(number, texts)


def _check_surrogates(texts: list[tuple[str, str]], name: str, number: int) -> None:
    for code, text in texts:
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise DataError(
                f"{name}: line {number}: {code} has half of a surrogate pair, such as \\ud83d; remove it"
            ) from None


class _Codes(dict[str, str]):
    """By key, the language or side that it names; "": none."""

    def __missing__(self, key: str) -> str:
        code = language_of_column(key)
        if len(self) < 1000:  # of a hostile file, each key may be new
            self[key] = code
        return code


def _object(line: str, name: str, number: int) -> dict[str, Any]:
    try:
        values = parse_json(line)
    except ValueError as error:
        raise DataError(f"{name}: line {number}: not JSON: {error}") from None
    if not isinstance(values, dict):
        raise DataError(f"{name}: line {number}: {type(values).__name__} instead of an object such as {{...}}")
    return values


@contextmanager
def writing(file: TextIO, langs: Languages) -> Iterator[Callable[[str, str], None]]:
    """Give a function that writes a pair as a line: the languages, or src and tgt, are its keys."""
    src_key, tgt_key = names_of_columns(langs)

    def write(src: str, tgt: str) -> None:
        json.dump({src_key: src, tgt_key: tgt}, file, ensure_ascii=False)
        file.write("\n")

    yield write

"""JSONL: one JSON object per line, with keys src and tgt or language codes, also below "translation" (as in OPUS)."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, TextIO

from mtkit.errors import DataError
from mtkit.pair_files.lines import lines_of
from mtkit.pair_files.pairs import Languages, Tally
from mtkit.pair_files.units import Unit, language_of_column, names_of_columns


def units(file: BinaryIO, name: str, _tally: Tally) -> Iterator[Unit]:
    """Yield the texts of each line by language; blank lines have none.

    Raises DataError, with the line, if it is not a JSON object, or none of its keys names a side or a language.
    """
    codes = _Codes()
    for number, line in enumerate(lines_of(file, name), start=1):
        if not line.strip():
            continue
        try:
            values = _object(line.removeprefix("\ufeff"))  # files with a BOM may have been joined
        except ValueError as error:
            raise DataError(f"{name}: line {number}: {error}") from None
        translation = values.get("translation")
        texts = [
            (code, text)
            for key, text in (translation if isinstance(translation, dict) else values).items()
            if (code := codes[key]) and isinstance(text, str)
        ]
        if not texts:
            listed = ", ".join(f"{key[:50]!r} ({_KINDS[type(value)]})" for key, value in [*values.items()][:10])
            raise DataError(
                f"{name}: line {number}: no text under src and tgt, or under language codes such as en and de; its "
                f"keys are {listed or 'none'}"
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


_KINDS = {
    **{dict: "an object", list: "an array", str: "a text", float: "a number", bool: "a truth value"},
    type(None): "null",
}


def _object(line: str) -> dict[str, Any]:
    """Return the object of a line. Raises ValueError."""
    try:
        values = _DECODER.decode(line)
    except json.JSONDecodeError as error:
        hint = f"; {_ONE_A_LINE}" if line.strip() in ("[", "{") else ""
        what = error.msg.removesuffix(" at")
        raise ValueError(f"not JSON: {what} at character {error.pos + 1}{hint}") from None
    except RecursionError:
        raise ValueError("not JSON: brackets are nested too deeply") from None
    if isinstance(values, list) and any(isinstance(value, dict) for value in values):
        raise ValueError(f"an array of objects; {_ONE_A_LINE}")
    if not isinstance(values, dict):
        raise ValueError(f'{_KINDS[type(values)]} instead of an object, such as {{"en": ..., "de": ...}}')
    return values


def _without_repeats(items: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(items)
    if len(values) < len(items):
        repeated = next(key for key, n in Counter(key for key, _ in items).items() if n > 1)
        raise ValueError(f"the key {repeated[:50]!r} comes twice in one object")
    return values


_ONE_A_LINE = "write each object on a line of its own, as jq -c does (of an array: jq -c '.[]')"
# No number is text, and int() refuses those of thousands of digits.
_DECODER = json.JSONDecoder(parse_int=float, object_pairs_hook=_without_repeats)


@contextmanager
def writing(file: TextIO, langs: Languages) -> Iterator[Callable[[str, str], None]]:
    """Yield a function that writes a pair as a line, with the languages, or src and tgt, as keys."""
    src_key, tgt_key = names_of_columns(langs)

    def write(src: str, tgt: str) -> None:
        json.dump({src_key: src, tgt_key: tgt}, file, ensure_ascii=False)
        file.write("\n")

    yield write

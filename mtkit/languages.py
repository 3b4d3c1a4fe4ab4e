"""Codes of languages, as configs and file names have them."""

from pathlib import Path

CHINESE = frozenset({"zh", "zho", "cmn", "yue", "wuu", "lzh"})
_OTHERS = frozenset({"ja", "jpn", "th", "tha", "lo", "lao", "km", "khm", "my", "mya", "bo", "bod"})
WITHOUT_SPACES = CHINESE | _OTHERS  # languages that write none between words


def primary_code(code: str | None) -> str:
    """The language alone, in small letters: "zh" of zh, zh-Hant and ZH_TW; empty for None."""
    return (code or "").lower().partition("-")[0].partition("_")[0]


def are_one_language(one: str, other: str) -> bool:
    """Whether two codes are of one language, as far as both tell: pt and pt-BR are, zh-Hans and zh-Hant are not."""
    one, other = (code.lower().replace("_", "-") for code in (one, other))
    bare = primary_code(one)
    return one == other or (bare == primary_code(other) and bare in (one, other))


def name_ending(path: Path) -> str:
    """What a text file's name ends with, in small letters: "en" of test.en and test.en.gz; empty without an ending."""
    return Path(path.name.removesuffix(".gz")).suffix.removeprefix(".").lower()

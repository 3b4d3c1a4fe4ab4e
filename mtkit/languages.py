"""Language codes, as in configs and file names."""

from pathlib import Path

CHINESE = frozenset({"zh", "zho", "cmn", "yue", "wuu", "lzh"})
_OTHERS = frozenset({"ja", "jpn", "th", "tha", "lo", "lao", "km", "khm", "my", "mya", "bo", "bod"})
WITHOUT_SPACES = CHINESE | _OTHERS  # languages written without spaces between words


def primary_code(code: str | None) -> str:
    """Return the language without script and region, in lower case: "zh" for zh, zh-Hant and ZH_TW; "" for None."""
    return (code or "").lower().partition("-")[0].partition("_")[0]


def are_one_language(one: str, other: str) -> bool:
    """Return whether two codes can mean one language: pt and pt-BR can, zh-Hans and zh-Hant cannot."""
    one, other = (code.lower().replace("_", "-") for code in (one, other))
    bare = primary_code(one)
    return one == other or (bare == primary_code(other) and bare in (one, other))


def name_ending(path: Path) -> str:
    """Return the ending of a text file's name, in lower case: "en" for test.en and test.en.gz; "" if it has none."""
    return Path(path.name.removesuffix(".gz")).suffix.removeprefix(".").lower()

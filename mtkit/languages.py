"""Codes of languages, as configs and file names have them."""


def primary_code(code: str | None) -> str:
    """The language alone, in small letters: "zh" of zh, zh-Hant and ZH_TW; empty for None."""
    return (code or "").lower().partition("-")[0].partition("_")[0]

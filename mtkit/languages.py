"""Language codes, as in configs and file names."""

import re
from pathlib import Path

CHINESE = frozenset({"zh", "zho", "cmn", "yue", "wuu", "lzh"})
_OTHERS = frozenset({"ja", "jpn", "th", "tha", "lo", "lao", "km", "khm", "my", "mya", "bo", "bod"})
WITHOUT_SPACES = CHINESE | _OTHERS  # languages written without spaces between words
_ISO_639_1 = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en "
    "eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv "
    "ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne "
    "ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr ss "
    "st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu"
)


def primary_code(code: str | None) -> str:
    """Return the language without script and region, in lower case: "zh" for zh, zh-Hant and ZH_TW; "" for None."""
    return (code or "").lower().partition("-")[0].partition("_")[0]


def are_one_language(one: str, other: str) -> bool:
    """Return whether two codes can mean one language: pt and pt-BR can, zh-Hans and zh-Hant cannot."""
    one, other = (code.lower().replace("_", "-") for code in (one, other))
    bare = primary_code(one)
    return one == other or (bare == primary_code(other) and bare in (one, other))


def is_code(text: str) -> bool:
    """Return whether the text is the code of a language, such as en, pt-BR or eng_Latn.

    Codes of three letters look like other words (txt, tok): only those of languages without spaces count, and those
    with a script.
    """
    text = text.lower()
    if re.fullmatch(r"[a-z]{2,3}([-_][a-z]{4})?([-_]([a-z]{2}|\d{3}))?", text) is None:
        return False
    return primary_code(text) in _KNOWN or bool(re.fullmatch(r"[a-z]{3}[-_][a-z]{4}", text))


_KNOWN = frozenset((*_ISO_639_1.split(), *WITHOUT_SPACES))


def language_in_name(path: Path) -> str | None:
    """Return the language code, in lower case, that ends a file's name, such as "en" for test.en.gz; None: no code."""
    ending = Path(re.sub(r"\.(gz|xz|zst)$", "", path.name)).suffix.removeprefix(".").lower()
    return ending if is_code(ending) else None


def languages_in_name(path: Path) -> tuple[str, str] | None:
    """Return the codes that a part of a file's name joins, such as en and pt_BR for B.en-pt_BR.tmx.gz; None: none."""
    for part in reversed(path.name.split(".")):
        codes = part.split("-")
        if len(codes) == 2 and all(map(is_code, codes)):
            return codes[0], codes[1]
    return None

"""Language codes, as in configs and file names, and the two sides of a translation."""

import difflib
import re
from pathlib import Path
from typing import Literal

Side = Literal["src", "tgt"]
SIDES: tuple[Side, Side] = ("src", "tgt")
CHINESE = frozenset({"zh", "zho", "cmn", "yue", "wuu", "lzh"})
_OTHERS = frozenset({"ja", "jpn", "th", "tha", "lo", "lao", "km", "khm", "my", "mya", "bo", "bod"})
WITHOUT_SPACES = CHINESE | _OTHERS  # languages written without spaces between words
# Languages of ISO 639-1: its code, other codes (ISO 639-2, two for some languages; of ISO 639-3, the standard language
# of a group, such as cmn for Mandarin in zh), and the English name.
_LANGUAGES = """
aa aar Afar, ab abk Abkhazian, ae ave Avestan, af afr Afrikaans, ak aka Akan, am amh Amharic, an arg Aragonese,
ar ara arb Arabic, as asm Assamese, av ava Avaric, ay aym Aymara, az aze azj Azerbaijani, ba bak Bashkir,
be bel Belarusian, bg bul Bulgarian, bh bih Bihari, bi bis Bislama, bm bam Bambara, bn ben Bengali, bo bod tib Tibetan,
br bre Breton, bs bos Bosnian, ca cat Catalan, ce che Chechen, ch cha Chamorro, co cos Corsican, cr cre Cree,
cs ces cze Czech, cu chu Church Slavic, cv chv Chuvash, cy cym wel Welsh, da dan Danish, de deu ger German,
dv div Divehi, dz dzo Dzongkha, ee ewe Ewe, el ell gre Greek, en eng English, eo epo Esperanto, es spa Spanish,
et est ekk Estonian, eu eus baq Basque, fa fas per pes prs Persian, ff ful Fulah, fi fin Finnish, fj fij Fijian,
fo fao Faroese, fr fra fre French, fy fry Western Frisian, ga gle Irish, gd gla Scottish Gaelic, gl glg Galician,
gn grn Guarani, gu guj Gujarati, gv glv Manx, ha hau Hausa, he heb iw Hebrew, hi hin Hindi, ho hmo Hiri Motu,
hr hrv Croatian, ht hat Haitian, hu hun Hungarian, hy hye arm Armenian, hz her Herero, ia ina Interlingua,
id ind Indonesian, ie ile Interlingue, ig ibo Igbo, ii iii Sichuan Yi, ik ipk Inupiaq, io ido Ido,
is isl ice Icelandic, it ita Italian, iu iku Inuktitut, ja jpn Japanese, jv jav Javanese, ka kat geo Georgian,
kg kon Kongo, ki kik Kikuyu, kj kua Kuanyama, kk kaz Kazakh, kl kal Greenlandic, km khm Khmer, kn kan Kannada,
ko kor Korean, kr kau Kanuri, ks kas Kashmiri, ku kur kmr Kurdish, kv kom Komi, kw cor Cornish, ky kir Kyrgyz,
la lat Latin, lb ltz Luxembourgish, lg lug Ganda, li lim Limburgish, ln lin Lingala, lo lao Lao, lt lit Lithuanian,
lu lub Luba-Katanga, lv lav lvs Latvian, mg mlg plt Malagasy, mh mah Marshallese, mi mri mao Maori,
mk mkd mac Macedonian, ml mal Malayalam, mn mon khk Mongolian, mr mar Marathi, ms msa may zsm Malay, mt mlt Maltese,
my mya bur Burmese, na nau Nauru, nb nob Norwegian Bokmål, nd nde North Ndebele, ne nep npi Nepali, ng ndo Ndonga,
nl nld dut Dutch, nn nno Norwegian Nynorsk, no nor Norwegian, nr nbl South Ndebele, nv nav Navajo, ny nya Chichewa,
oc oci Occitan, oj oji Ojibwa, om orm gaz Oromo, or ori ory Odia, os oss Ossetian, pa pan Punjabi, pi pli Pali,
pl pol Polish, ps pus pbt Pashto, pt por Portuguese, qu que Quechua, rm roh Romansh, rn run Rundi, ro ron rum Romanian,
ru rus Russian, rw kin Kinyarwanda, sa san Sanskrit, sc srd Sardinian, sd snd Sindhi, se sme Northern Sami,
sg sag Sango, sh hbs Serbo-Croatian, si sin Sinhala, sk slk slo Slovak, sl slv Slovenian, sm smo Samoan, sn sna Shona,
so som Somali, sq sqi alb als Albanian, sr srp Serbian, ss ssw Swati, st sot Southern Sotho, su sun Sundanese,
sv swe Swedish, sw swa swh Swahili, ta tam Tamil, te tel Telugu, tg tgk Tajik, th tha Thai, ti tir Tigrinya,
tk tuk Turkmen, tl tgl Tagalog, tn tsn Tswana, to ton Tongan, tr tur Turkish, ts tso Tsonga, tt tat Tatar, tw twi Twi,
ty tah Tahitian, ug uig Uyghur, uk ukr Ukrainian, ur urd Urdu, uz uzb uzn Uzbek, ve ven Venda, vi vie Vietnamese,
vo vol Volapük, wa wln Walloon, wo wol Wolof, xh xho Xhosa, yi yid ydd Yiddish, yo yor Yoruba, za zha Zhuang,
zh zho chi cmn Chinese, zu zul Zulu
"""
_ENTRIES = [re.fullmatch(r"\s*(\w\w) ((?:[a-z]{2,3} )+)(.+?)\s*", entry) for entry in _LANGUAGES.split(",")]
_NAMES = {entry[1]: entry[3] for entry in _ENTRIES if entry}  # English, by code of two letters
_SHORTEST = {code: entry[1] for entry in _ENTRIES if entry for code in entry[2].split()}
_OWN_NAMES = {  # of languages that often head the columns of a table in that language
    **{"čeština": "cs", "deutsch": "de", "español": "es", "français": "fr", "italiano": "it", "nederlands": "nl"},
    **{"polski": "pl", "português": "pt", "svenska": "sv", "türkçe": "tr", "русский": "ru", "українська": "uk"},
    **{"日本語": "ja", "한국어": "ko", "中文": "zh"},
}
_BY_NAME = {name.lower(): code for code, name in _NAMES.items()} | _OWN_NAMES
# Codes of countries that are taken for languages.
_BY_COUNTRY = {"cn": "zh", "dk": "da", "gb": "en", "jp": "ja", "ua": "uk", "us": "en", "vn": "vi"}
# Where the plural category "one" is for whole numbers besides 1 (CLDR 45): 0 in many, and 21 and 31 in Slavic ones.
_ONE_IS_SHARED = """
ak am as be bho bn br bs ceb csw doi dsb fa ff fil fr gd gu guw gv hi hr hsb hy is kab kn ln lt lv mg mk nso pa pcm prg
pt ru sh shi si sl sr ti tl tzm uk wa zu
"""


def primary_code(code: str | None) -> str:
    """Return the shortest code of the language without script and region, in lower case; "" for None.

    "zh" for zh, zh-Hant, ZH_TW and zho_Hans.
    """
    bare = (code or "").lower().partition("-")[0].partition("_")[0]
    return _SHORTEST.get(bare, bare)


_UNKNOWN = ("und", "mul", "mis")  # ISO 639-2: undetermined, several, without a code


def is_another_language(code: str | None, wanted: str | None) -> bool:
    """Return whether a text is marked as in another language than the wanted one; False if either is unknown."""
    return bool(code and wanted) and primary_code(code) not in (primary_code(wanted), *_UNKNOWN)


def are_one_language(one: str, other: str) -> bool:
    """Return whether two codes can mean one language: pt and pt-BR can, en and eng, but not zh-Hans and zh-Hant."""
    one, other = normal_code(one), normal_code(other)
    bare = primary_code(one)
    return one == other or (bare == primary_code(other) and bare in (one, other))


def normal_code(code: str) -> str:
    """Return the shortest spelling of a code, which is equal for codes with the same meaning: en-us for eng_US."""
    language, hyphen, rest = code.lower().replace("_", "-").partition("-")
    return primary_code(language) + hyphen + rest


def has_one_shared(code: str | None) -> bool:
    """Return whether a language has the plural category "one" for other whole numbers than 1, too."""
    return primary_code(code) in _ONE_IS_SHARED.split()


def script_of_code(code: str) -> str | None:
    """Return the script that a code names, as sr-Latn does, or that a region of Chinese stands for; None: neither."""
    parts = re.split("[-_]", code.lower())
    if script := next((part for part in parts[1:] if len(part) == 4), None):
        return script.title()
    regions = _SCRIPTS_OF_CHINESE if primary_code(code) == "zh" else {}
    return next((regions[part] for part in parts[1:] if part in regions), None)


_SCRIPTS_OF_CHINESE = {"cn": "Hans", "sg": "Hans", "my": "Hans", "tw": "Hant", "hk": "Hant", "mo": "Hant"}


def english_name(code: str) -> str | None:
    """Return the English name of a language; None if it is not one of ISO 639-1."""
    return _NAMES.get(primary_code(code))


def code_of_name(name: str) -> str | None:
    """Return the code of a language by its English name, or for some by the native name, in any case; None: unknown
    name.
    """
    return _BY_NAME.get(name.lower())


def may_be_code(text: str) -> bool:
    """Return whether the text can be a language code, such as en, pt-BR, deu or eng_Latn.

    It does not check which of the thousands of three-letter codes exist.
    """
    if re.fullmatch(r"[a-z]{2,3}([-_][a-z]{4})?([-_]([a-z]{2}|\d{3}))?", text.lower(), re.ASCII) is None:
        return False
    return len(primary_code(text)) == 3 or primary_code(text) in _NAMES


def codes_like(text: str) -> list[str]:
    """Suggest codes of languages for a text that is not a code: de for German, germn and ger."""
    word = text.lower()
    if word in _BY_COUNTRY:
        return [_BY_COUNTRY[word]]
    names = [name for name in _BY_NAME if name.startswith(word)] or difflib.get_close_matches(word, _BY_NAME, n=1)
    return [_BY_NAME[name] for name in names[:3]]


def is_code(text: str) -> bool:
    """Return whether the text is the code of a language, such as en, pt-BR or eng_Latn.

    Three-letter codes look like other words (txt, tok), so only codes of languages without spaces and codes with a
    script count.
    """
    text = text.lower()
    if re.fullmatch(r"[a-z]{2,3}([-_][a-z]{4})?([-_]([a-z]{2}|\d{3}))?", text) is None:
        return False
    bare = re.split("[-_]", text)[0]
    return bare in _KNOWN or bool(re.fullmatch(r"[a-z]{3}[-_][a-z]{4}", text))


_KNOWN = frozenset((*_NAMES, *WITHOUT_SPACES, "iw"))


def language_in_name(path: Path) -> str | None:
    """Return the language code at the end of a file name, in lower case, such as "en" for test.en.gz; None: none."""
    ending = Path(re.sub(r"\.(gz|xz|zst)$", "", path.name)).suffix.removeprefix(".").lower()
    return ending if is_code(ending) else None


def languages_in_name(path: Path) -> tuple[str, str] | None:
    """Return the pair of codes in a file's name, such as en and pt_BR for B.en-pt_BR.tmx.gz; None: no pair."""
    for part in reversed(path.name.split(".")):
        codes = part.split("-")
        if len(codes) == 2 and all(map(is_code, codes)):
            return codes[0], codes[1]
    return None

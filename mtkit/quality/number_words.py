"""Numbers in words: a text in, the values that its words can be read as out.

Known are Chinese and Japanese numerals and the number words of seven European languages, in one table: a word that is
a number in one language and something else in another ("once", "sei") only makes the search for lost numbers milder.
"""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cache

LANGUAGES = frozenset({"en", "fr", "de", "pt", "es", "it", "nl", "zh", "ja"})

# From the value on the left upwards, one step a word; several words for one value are separated by "/".
_SERIES = (
    (0, "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"),
    (17, "seventeen eighteen nineteen twenty"),
    (0, "zéro un/une deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize"),
    (0, "null eins/ein/eine/einen/einem/einer/eines zwei/zwo drei vier fünf sechs/sech sieben/sieb acht neun zehn elf"),
    (12, "zwölf"),
    (0, "zero um/uma dois/duas três quatro cinco seis sete oito nove dez onze doze treze quatorze/catorze quinze"),
    (16, "dezesseis/dezasseis dezessete/dezassete dezoito dezenove/dezanove vinte"),
    (0, "cero uno/un/una dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis"),
    (17, "diecisiete dieciocho diecinueve veinte veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis"),
    (0, "zero uno/un/una due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici"),
    (16, "sedici diciassette diciotto diciannove venti"),
    (0, "nul een/één twee drie vier vijf zes zeven acht negen tien elf twaalf dertien veertien vijftien zestien"),
    (17, "zeventien achttien negentien twintig"),
    (1, "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"),
    (1, "premier/première/premiers/premières second/seconde"),
    (1, "erste/ersten/erster/erstes zweite/zweiten/zweiter dritte/dritten/dritter"),
    (1, "primeiro/primeira segundo/segunda terceiro/terceira quarto/quarta quinto/quinta sexto/sexta sétimo/sétima"),
    (8, "oitavo/oitava nono/nona décimo/décima"),
    (1, "primero/primera/primer segundo/segunda tercero/tercera/tercer cuarto/cuarta quinto/quinta sexto/sexta"),
)
_TENS = (  # from 20 on
    "twenty thirty forty fifty sixty seventy eighty ninety",
    "twenties thirties forties fifties sixties seventies eighties nineties",
    "vingt/vingts trente quarante cinquante soixante septante huitante/octante nonante",
    "zwanzig dreißig/dreissig vierzig fünfzig sechzig siebzig achtzig neunzig",
    "vinte trinta quarenta cinquenta sessenta setenta oitenta noventa",
    "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa",
    "venti trenta quaranta cinquanta sessanta settanta ottanta novanta",
    "twintig dertig veertig vijftig zestig zeventig tachtig negentig",
    "vigésimo trigésimo quadragésimo quinquagésimo sexagésimo septuagésimo octogésimo nonagésimo",
    "vingtaine trentaine quarantaine cinquantaine soixantaine",
)
_HUNDREDS = (
    "hundred/hundreds/cent/cents/hundert/hunderte/cem/cento/cien/ciento/honderd/centaine/centaines/centena/centenas "
    "duzentos/duzentas/doscientos/doscientas trezentos/trezentas/trescientos/trescientas "
    "quatrocentos/quatrocentas/cuatrocientos/cuatrocientas quinhentos/quinhentas/quinientos/quinientas "
    "seiscentos/seiscentas/seiscientos/seiscientas setecentos/setecentas/setecientos/setecientas "
    "oitocentos/oitocentas/ochocientos/ochocientas novecentos/novecentas/novecientos/novecientas"
)
# A billion is 10^9 or 10^12, by language.
_SCALES = {
    10**3: "thousand thousands mille mil tausend mila duizend millier milliers milhar milhares",
    10**6: "million millions millionen milhão milhões millón millones milione milioni miljoen",
    10**9: "billion billions milliard milliards milliarde milliarden bilhão bilhões miliardo miliardi miljard",
    10**12: "trillion trillions billionen trilhão trilhões billón billones biljoen",
}
_DOZENS = "dozen dozens douzaine douzaines dutzend dúzia dúzias docena docenas"
# Words that stand for a value of their own and combine with no other.
_LONE = {
    "1": "a an",
    "2": "couple pair paire paar par pareja twice double doppelt zweimal beide both",
    "10": "decade décennie jahrzehnt década dizaine dezena",
    "12": f"{_DOZENS} noon midday midi mittag mittags mezzogiorno",
    "0": "midnight minuit mitternacht mezzanotte kein keine aucun aucune",
    "14": "fortnight",
    "15": "quinzaine quarter quart viertel viertelstunde quarto cuarto",
    "30": "half demi demie halb halbe halben meia media",
    "100": "century siècle jahrhundert século siglo",
    "0.5": "half demi demie moitié hälfte halb halbe halben einhalb meio meia metade mitad medio",
    "0.25": "quarter quart viertel quarto cuarto",
}
_LINKS = frozenset({"and", "et", "und", "e", "y", "en"})
_CHINESE_DIGITS = {c: value for value, cs in enumerate(("〇零", *"一二三四五六七八九")) for c in cs} | {
    "两": 2,
    "兩": 2,
}
_CHINESE_UNITS = {"十": 10, "百": 100, "千": 1000}
_CHINESE_SCALES = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
_CHINESE = re.compile(f"[{''.join((*_CHINESE_DIGITS, *_CHINESE_UNITS, *_CHINESE_SCALES))}]+")
_WORD = re.compile(r"[^\W\d_]+")
_GAP = re.compile(r"[\s-]*")  # what may stand between two words of one number
_ROMAN = re.compile(r"\b(?=[IVXLC]{2}|[IVX])(?:C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})(?=(?:e|er|ème)?\b)")
_LONGEST_RUN = 12  # words; longer ones are read in parts
_MOST_DIGITS = 20  # Chinese digits in a row that may be one number; more are only read one by one


def values_of_words(text: str) -> set[Decimal]:
    """Every value that the text's words, Chinese and Roman numerals can stand for."""
    found = {Decimal(value) for run in _runs(text) for value in _readings(run)}
    for word in _WORD.findall(text.lower()):
        found |= _lone_values().get(word, frozenset())
    for numeral in _CHINESE.findall(text):
        found |= {Decimal(value) for value in _chinese_readings(numeral)}
    return found | {Decimal(_roman(match[0])) for match in _ROMAN.finditer(text) if match[0]}


def numbers_in_words(text: str) -> list[int]:
    """The numbers that the text spells out, in order, each read as a whole: [25] of twenty-five."""
    return [_as_a_whole(run) for run in _runs(text)]


def scales_of(word: str) -> tuple[int, ...]:
    """What a number before this word may be multiplied by ("3 million", "3 千"); () if the word is no scale."""
    if word[:1] in _CHINESE_SCALES or word[:1] in _CHINESE_UNITS:
        return (_CHINESE_SCALES.get(word[0]) or _CHINESE_UNITS[word[0]],)
    if word in _DOZENS.split():
        return (12,)
    scale = _values().get(word, 0)
    if scale < 100 or scale % 100:
        return ()
    return (10**9, 10**12) if scale in (10**9, 10**12) else (scale,)


@cache
def _values() -> dict[str, int]:
    table: dict[str, int] = {}
    series = [
        *((start, 1, words) for start, words in _SERIES),
        *((20, 10, words) for words in _TENS),
        (100, 100, _HUNDREDS),
        *((scale, 0, word) for scale, words in _SCALES.items() for word in words.split()),
    ]
    for start, step, words in series:
        for number, synonyms in enumerate(words.split()):
            for word in synonyms.split("/"):
                table.setdefault(word, start + step * number)
    return table


@cache
def _lone_values() -> dict[str, frozenset[Decimal]]:
    table: dict[str, frozenset[Decimal]] = {}
    for value, words in _LONE.items():
        for word in words.split():
            table[word] = table.get(word, frozenset()) | {Decimal(value)}
    return table


@cache
def _german_parts() -> re.Pattern[str]:
    """One part of a German or Dutch compound such as zweihundertdreiundvierzig, longest first."""
    german = "ein zwei drei vier fünf sechs sech sieben sieb acht neun zehn elf zwölf hundert tausend und "
    dutch = "twee vijf zes zeven negen tien honderd duizend en "
    parts = (german + dutch + _TENS[3] + " " + _TENS[7]).replace("/", " ").split()
    return re.compile("|".join(sorted(parts, key=len, reverse=True)))


def _values_of_word(word: str) -> list[int]:
    """The values that a word is made of: [20] of twenty, [3, 20] of dreiundzwanzig, [] of any other word."""
    table = _values()
    for stem in _stems(word):
        if stem in table:
            return [table[stem]]
    values, at = [], 0
    while part := _german_parts().match(word, at):
        values += [table[part[0]]] if part[0] in table else []
        at = part.end()
    return values if sum(values) > 1 else []  # "ein..." and "en..." begin too many words


def _stems(word: str) -> Iterator[str]:
    """The word, and the numbers that it may be the ordinal of: twentieth, sixteenth, vingtième, cinquième, zwölfte."""
    yield word
    for ending, replacements in (("ieth", ("y",)), ("th", ("",)), ("ième", ("", "e")), ("te", ("",)), ("ten", ("",))):
        if word.removesuffix("s").endswith(ending):
            stem = word.removesuffix("s").removesuffix(ending)
            yield from (stem + replacement for replacement in replacements)
            if ending == "ième":
                yield {"cinqu": "cinq", "neuv": "neuf"}.get(stem, stem)


def _runs(text: str) -> Iterator[list[int]]:
    """The values of neighbouring number words: [2, 1000, 13] of "deux mille treize"."""
    run: list[int] = []
    end = 0
    for match in _WORD.finditer(text.lower()):
        adjacent = _GAP.fullmatch(text, end, match.start()) is not None
        values = _values_of_word(match[0])
        if run and not (adjacent and (values or match[0] in _LINKS) and len(run) < _LONGEST_RUN):
            yield run
            run = []
        run += values
        end = match.end()
    if run:
        yield run


def _readings(run: Sequence[int]) -> Iterator[int]:
    """The values of every stretch of a run, since "two and five" may be 2 and 5; also years: nineteen eighty-eight."""
    for start in range(len(run)):
        for end in range(start + 1, len(run) + 1):
            yield _evaluate(run[start:end])
            for middle in range(start + 1, end):
                century, year = _evaluate(run[start:middle]), _evaluate(run[middle:end])
                if 10 <= century <= 99 and 1 <= year <= 99:
                    yield 100 * century + year


def _as_a_whole(run: Sequence[int]) -> int:
    """The one value that a run most likely stands for; two numbers of two digits are a year: twenty thirteen."""
    century, year = run[0], _evaluate(run[1:])
    return 100 * century + year if 10 <= century <= 20 and 10 <= year <= 99 else _evaluate(run)


def _evaluate(run: Sequence[int]) -> int:
    """One value of number words in a row: hundreds and thousands multiply what stands before them, others add up."""
    total, current = 0, 0
    for value in run:
        if value == 100:
            current = max(current, 1) * 100
        elif value >= 1000:
            total += max(current, 1) * value
            current = 0
        elif value == 20 and current % 100 == 4:  # quatre-vingt
            current += 80 - 4
        else:
            current += value
    return total + current


def _chinese_readings(numeral: str) -> Iterator[int]:
    """二百三十 as 230, 二〇一三 as 2013."""
    if all(c in _CHINESE_DIGITS for c in numeral):
        if len(numeral) <= _MOST_DIGITS:
            yield int("".join(str(_CHINESE_DIGITS[c]) for c in numeral))
        yield from (_CHINESE_DIGITS[c] for c in numeral)
        return
    total, section, digit = 0, 0, 0
    for c in numeral:
        if c in _CHINESE_DIGITS:
            digit = _CHINESE_DIGITS[c]
        elif c in _CHINESE_UNITS:
            section += max(digit, 1) * _CHINESE_UNITS[c]
            digit = 0
        else:
            total += max(section + digit, 1) * _CHINESE_SCALES[c]
            section, digit = 0, 0
    yield total + section + digit


def _roman(numeral: str) -> int:
    values = [{"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}[c] for c in numeral]
    return sum(-v if any(after > v for after in values[i + 1 : i + 2]) else v for i, v in enumerate(values))

"""Template code and formulas in text, which stays byte for byte: one table of the syntaxes, for all formats."""

import re
from collections.abc import Callable

_SOME = 1000  # characters of one piece of code


def _between(first: str, last: str) -> str:
    return rf"{first}(?:(?!{first}|{last})[\s\S]){{0,{_SOME}}}+{last}"


_PARENTHESES = r"\((?:[^()\n]|\((?:[^()\n]|\([^()\n]{0,200}+\)){0,200}+\)){0,500}+\)"
_BLADE = (  # of Laravel; other words behind @ are names of people
    r"@(?<![\w@.]@)(?:php\b(?!\()(?:(?!@endphp)[\s\S]){1,1000}+@endphp"
    rf"|[a-zA-Z]{{2,30}}{_PARENTHESES}"
    r"|(?:(?:else)?if|unless|isset|empty|for(?:each|else)?|while|switch|case|section|include|can(?:not|any)?|error|push)"
    rf"[ \t]{{1,4}}{_PARENTHESES}"
    r"|(?:else|end[a-z]{2,12}|csrf|verbatim|parent|show|once|break|continue|default|production|auth|guest)\b"
    r"(?=[ \t]{0,9}(?:[\r\n<]|\Z)))"
)
STATEMENTS = "|".join(  # what a template does, and its comments; it shows nothing itself, or a whole block
    [
        _between(r"\{%", r"%\}"),  # Jinja, Django, Liquid, Twig
        _between(r"\{#(?=[\s-])", r"#\}"),  # their comments
        _between(r"\{\{(?=[!#/^<>%])", r"\}\}"),  # Handlebars, Mustache, Hugo
        _between(r"\{/\*", r"\*/\}"),  # comments of JSX
        _between("<%", "%>"),  # ERB, EJS, JSP
        r"<\?(?:php\b|=)(?:(?!\?>)[\s\S])*+(?:\?>|\Z)",  # PHP
        _BLADE,
    ]
)
VALUES = (  # what a template shows
    r"\{\{\{[^{}\n]{1,200}\}\}\}|\{\{[^{}\n]{1,200}\}\}"  # Jinja, Vue, Handlebars, i18next
    r"|\{!!(?:(?!!!\})[^\n]){1,200}+!!\}"  # Blade, without escaping
    r"|#\{[^{}\n]{1,80}\}"  # Ruby, Pug
)
_BRACED = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]{0,200}+\}){0,300}+\}){1,600}+\}"
EXPRESSIONS = (  # of JSX and MDX: what is clearly code in braces, such as {n > 1 ? "s" : ""} and {list.map(...)}
    rf"(?=\{{\s{{0,9}}[\w.]{{1,60}}\(|\{{[^{{}}\n]{{1,200}}?(?:=>|&&|\|\||[=!]==?\s|\s\?\s|\w\.\w{{1,60}}\()){_BRACED}"
)
MERGE_TAGS = (  # of mailings, wikis and the like, without characters that HTML escapes
    r"\*\|[^\s*|][^*\n]{0,60}?\|\*"  # *|NAME|*
    r"|!?\[\[[^\[\]\n]{1,200}\]\]"  # [[name]]
    r"|%%[\w.-]{1,60}%%"
    r"|%(?<![\w%]%)[A-Z][A-Z0-9_]{1,60}%(?![\w%])"  # %NAME%, also of Windows
    r"|\$[a-zA-Z_]\w{0,60}\$"
    r"|(?<!\w)__[a-zA-Z](?:_?[a-zA-Z0-9]){0,60}__(?!\w)"
)
IN_PROSE = (  # what could be a word in the messages of a program
    r"\[[a-zA-Z][\w.-]{0,60}\]"  # [name]
    r"|<[a-zA-Z][\w.-]{0,60}>"  # <name>
    r"|(?<![^\s(]):[a-z_]\w{0,60}\b(?!:)"  # :name
)
FORMULA = (  # of LaTeX, as MathJax and KaTeX find them in pages
    r"\\\([\s\S]{1,500}?\\\)|\\\[[\s\S]{1,1000}?\\\]|(?<!\$)\$\$[^$]{1,1000}\$\$(?!\$)"
    r"|\\begin\{[a-zA-Z]{1,20}\*?\}[\s\S]{1,1000}?\\end\{[a-zA-Z]{1,20}\*?\}"
)
TEMPLATE = re.compile(f"{STATEMENTS}|{VALUES}")  # which may have characters that HTML escapes
_ENDS_SENTENCE = re.compile(r"[.!?](?![\w.!?])|\n")


def is_opaque(code: str) -> bool:
    """Return whether a match of TEMPLATE cannot be part of a sentence: a statement, or a value that would divide it."""
    return re.match(STATEMENTS, code) is not None or _ENDS_SENTENCE.search(code) is not None


def outside_templates(text: str, change: Callable[[str], str], pattern: re.Pattern[str] = TEMPLATE) -> str:
    """Return the text with each part outside template code changed. pattern: matches the code."""
    parts, at = [], 0
    for code in pattern.finditer(text):
        parts += [change(text[at : code.start()]), code[0]]
        at = code.end()
    return "".join([*parts, change(text[at:])])


def writer(source: str, escape: Callable[[str], str]) -> Callable[[str], str]:
    """Return a function that escapes a translation, except for template code that is also in the source."""
    kept = {code[0] for code in TEMPLATE.finditer(source)}
    if not kept:
        return escape
    pattern = re.compile("|".join(map(re.escape, sorted(kept, key=len, reverse=True))))
    return lambda text: outside_templates(text, escape, pattern)

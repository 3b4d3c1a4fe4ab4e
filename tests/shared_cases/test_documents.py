"""Small documents that failed in trials, from a folder next to the checkout: what mtkit must keep, place and report.

A stand-in for a model writes every sentence in capitals and loses what a small model loses: digits, symbols and all
marks but those of sentences. So whatever else stands in the output is there because mtkit kept it.
"""

import io
import re
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from mtkit.alignment.placing import Aligner
from mtkit.config.decoding import DecodeConfig
from mtkit.config.tokenizer import TokenizerConfig
from mtkit.documents.filling import LEFT, TranslatedDocument
from mtkit.documents.reading import Options, format_of
from mtkit.documents.translate import translate_bytes
from mtkit.search.hypothesis import Hypothesis
from mtkit.tokens.tokenizer import Tokenizer, train_tokenizer
from mtkit.translation.translator import Translator

FOLDER = Path(__file__).parents[3] / "shared" / "cases" / "documents"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"needs the documents of {FOLDER}")


@dataclass(frozen=True)
class Case:
    """What a translated document has and lacks. Members of an archive count as one text."""

    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    reported: tuple[str, ...] = ()  # in the source of a note about a segment that stayed as it was, or in `has`
    fails: str = ""  # why it fails today; whoever fixes it removes this
    options: Options = field(default_factory=Options)


HOUSE, KEYS, CAT, ORANGES, SOFA = (
    *("THE HOUSE", "WHERE ARE MY KEYS?", "THE CAT SLEEPS.", "I LOVE ORANGES.", "THE SOFA IS YELLOW."),
)
PAGES = {  # HTML, Markdown and books
    "15b-notes.html": Case(
        has=(
            "WE VISITED THE MUSEUM<sup>1</sup>.",
            f'{ORANGES}<sup><a href="#n2">[2]</a></sup> {KEYS}',
            'I LOVE ORANGES<a epub:type="noteref" href="#n1">3</a> AND',
            'I LOVE ORANGES<a href="#a"><sup>*</sup></a>.',
            '(<a href="#b">12</a>).',
        ),
    ),
    "15e-punctuation.html": Case(
        has=(
            f"<p><b>{ORANGES}</b> {KEYS}</p>",
            f"<p><del>{CAT}</del> THE DOG RUNS.</p>",
            '<p><a href="x">WHERE IS THE CHURCH?</a></p>',
            f"<p>{CAT} <i>I LOVE ORANGES!</i></p>",
            f'<p><span class="hidden">{SOFA}</span> THE HOUSE IS OLD.</p>',
            "CAME BACK<br>FROM THE",
        ),
    ),
    "15f-script.xhtml": Case(
        has=('<title/><script src="a.js"/></head><body><p>', f"<p>{CAT}</p><p>THE DOG RUNS.</p></body></html>"),
    ),
    "15g-dtd.xhtml": Case(
        has=('<!DOCTYPE html [<!ENTITY nbsp "&#160;">]>\n', f"<title>{HOUSE}</title>", "<p>I LOVE", "ORANGES.</p>"),
    ),
    "16b-templates.html": Case(
        has=(
            *(
                "<p>{% if user %}</p>",
                "{% endif %}\n",
                "{{{raw}}} LOVES ORANGES.",
                "I LOVE {{{raw}}}.",
                "{# The cat #}",
            ),
            *("<?php if ($a > 1): ?>", "<?php endif; ?>", "I LOVE <?= $name ?>.", "I LOVE <%= name %>."),
            *("[[name]]", "*|NAME|*", "%%name%%", "#{name}", "@name", ":name", "__name__", "[name]", "$name$", "{0}"),
            *("&lt;name&gt;", '<p v-if="a > b">', '<p>{% trans "The cat sleeps." %}</p>'),
            f"<p>{{% blocktrans %}}{CAT}{{% endblocktrans %}}",
        ),
    ),
    "18b-site.md": Case(
        has=(
            *("{% raw %}\n", "{% endraw %}\n", '{% include figure.html caption="The cat sleeps." %}\n'),
            *("ORANGES. {{ site.name }} {% link a.md %}\n", '\n{{< figure src="a.png" caption="The cat sleeps." >}}\n'),
            *("{: .note }\n", "{{% notice tip %}}\n", "{{% /notice %}}\n"),
            *("<!--more-->\n", "![[cat.png]]", "[[", "\nimport Tabs from '@theme/Tabs';\n"),
            *("import TabItem from '@theme/TabItem';\n", "\nexport const a = 3;\n", "<Tabs>\n", '<TabItem value="a"'),
            *("# THE HOUSE\n", f"\n{CAT}\n", "\nTHE DOG RUNS.\n", "\nTHE DOOR IS OPEN.\n"),
        ),
    ),
    "15d-addresses.html": Case(
        has=(
            '<a href="mailto:a@b.example">a@b.example</a>',
            "http://x.example/a AND I LOVE ORANGES.",
            '<a href="https://x.example/">https://x.example/</a>',
            "https://x.example/, https://y.example/.",
        ),
    ),
    "17-post.html": Case(
        has=("@<span>julie</span>", "#<span>cats</span>", ":blobcat:", "😆", "<p>🌷🌷</p>", ORANGES, KEYS),
        lacks=("CATS", "JULIE", "BLOBCAT"),
    ),
    "34-book.epub": Case(
        has=(
            *("SOFA IS YELLOW.</h1>", "ORANGES", f"{KEYS}</p>", "<br/>THE DOOR IS OPEN.</p>", "THE DOG RUNS."),
            *("WHERE IS THE CHURCH?<a href=", "<sup>1</sup></a></p></blockquote>", "THE MUSEUM IS CLOSED."),
            *('alt="A RED BALL."', '<script src="a.js" type="text/javascript"/></head><body>', "// The cat sleeps."),
            *("<dc:title>THE OLD HOUSE</dc:title>", "Julie House"),
        ),
    ),
    "36-dtd.epub": Case(
        has=(
            '<!DOCTYPE html [<!ENTITY nbsp "&#160;">]>\n',
            'ORANGES<a epub:type="noteref" href="#n1">1</a>.',
            "<mi>x</mi><mo>+</mo><mn>1</mn>",
            "<rt>inu</rt>",
            "RUNS.</p>",
            "THE KEYS ARE IN THE KITCHEN.",
        ),
        lacks=("INU",),
    ),
    "37-script.epub": Case(
        has=(
            '/* x */</script><script src="a.js" type="text/javascript"/></head><body><p>I LOVE ORANGES<a',
            '<a epub:type="noteref" href="#n1">1</a>.',
            "<rt>inu</rt>",
            "THE KEYS ARE IN THE KITCHEN.",
        ),
    ),
}
TEXTS = {  # plain text and subtitles
    "22-latin1.txt": Case(has=("CAF", "IS CLOSED.", ORANGES), options=Options(encoding="cp1252")),
    "24-letter.txt": Case(
        has=("DEAR JULIE,", f"  * {ORANGES}", "1) WHERE IS", "> THE DOG RUNS.", "😆", "🌷🌷", f"Marie: {ORANGES}"),
    ),
    "24b-emoji.txt": Case(
        has=("😆\n\n😆 I LOVE ORANGES.", "ORANGES 😆.", "ORANGES😆!", "❤️", "✅ THE", "→", "©", "★★★ THE"),
    ),
    "13b-no-ms.srt": Case(has=("00:00:18 --> 00:00:20", "THE DOG RUNS.")),
    "14b-lrm.vtt": Case(
        has=(
            *("01.900\n&lrm;WHERE ARE MY KEYS?&lrm;\n", "02.900\n&lrm;THE SOFA IS YELLOW.&lrm;\n"),
            *("03.900\n&lrm;I LOVE ORANGES.&lrm;\n", "CAME BACK", "FROM THE AIRPORT"),
        ),
    ),
    "29b-labels.srt": Case(
        has=(
            *("[", "]", f"[laughs] {ORANGES}", "(", f"MARIE: {CAT}", f"Marie: {CAT}", f"- MARIE: {ORANGES}\n- {SOFA}"),
            *("♪ I LOVE ORANGES ♪", f"{KEYS} [laughs]", f"<i>[Marie]</i> {SOFA}", "{\\an8}♪♪"),
        ),
    ),
}
MESSAGES = {  # catalogues and tables
    "01b-slavic.po": Case(
        has=('msgstr[0] "THERE ARE %d CATS', 'msgstr[1] "THERE ARE %d CATS', 'msgstr[2] "THERE ARE %d CATS'),
    ),
    "04-i18next.json": Case(
        has=(
            *("{{boys}}", '$t(boy, { \\"count\\": {{boys}} })', "$t(common:greeting) WHERE", '"only": "$t(boy_one)"'),
            *("{{price, currency(USD)}}", "{{- name}} LOVES", "<0>ORANGES</0> AND <1/> <bold>MY HOUSE</bold>."),
            *(
                '["MONDAY", "TUESDAY", null, 3, true, 1e5, 0.10]',
                '"empty": "",\n',
                '"space": " "',
                "ORANGES.\\n\\nWHERE",
            ),
            '"url": "https://example.org/love"',
        )
    ),
    "28-vue.json": Case(
        has=(" | ", "{count} CATS", "julie{'@'}example.org", "@:common.hello WHERE", "@.lower:common.dog", "{0}", "{1}")
    ),
    "04b-marks.json": Case(
        has=(
            *(f'"1. {ORANGES}"', f'"- {ORANGES}"', f'"• {CAT}"', f'"a) {SOFA}"', '"## THE MUSEUM"'),
            *(f'"* {ORANGES}\\n* {CAT}\\n"', f'"1) {KEYS}\\n2) THE DOG RUNS."', f'"> {CAT}"', '"THE DOG RUNS:"'),
            *('"THE CAT SLEEPS…"', f'"“{ORANGES}”"', f'"({CAT})"', f'"{ORANGES}  {CAT}"'),
        ),
    ),
    "05b-icu.json": Case(
        has=("{# CAT} other {# CATS}", "''", "'{braces}'.", "'{'", "'}'", "{count}", "PAUL''S HOUSE IS OLD, {name}."),
    ),
    "06b-block.yml": Case(
        has=(f"    - {ORANGES}\n    - {CAT}\n\n    1. WHERE IS THE CHURCH?\n", f"hello: {KEYS}"),
    ),
    "11b-escapes.xlf": Case(
        has=(
            f"{ORANGES}\\n{CAT}</target>",
            f">1. {ORANGES}</target>",
            "LOVE <bpt",
            f'<g id="1">{ORANGES}</g> {KEYS}</target>',
        ),
        reported=("sofa is yellow",),
    ),
    "20-products.csv": Case(
        has=(
            *("sep=;", "sku;name;note;price", 'A-1;"THE', f"{ORANGES}\n{KEYS}", "B-2;WHERE", "C-3;;", "E-5;THE"),
            *(f'"= {CAT}"', ";-3;+1", '"  THE DOOR IS OPEN.  "'),
        ),
    ),
    "21-latin1.csv": Case(has=("id,text", "CAF", "IS CLOSED, JULIE.", ORANGES), options=Options(encoding="cp1252")),
}
CASES = PAGES | TEXTS | MESSAGES


class LoudEngine:
    """A model that writes capitals and knows only letters and the marks of sentences."""

    name, arithmetic = "loud", "letters"
    max_positions: int | None = None

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def decode(self, segments, cfg, n_best):
        for index, segment in enumerate(segments):
            parts = re.split(r"(<ph\d>)", self.tokenizer.decode(segment.ids))
            loud = [
                part if part.startswith("<ph") else re.sub(r"[^\w\s.,?!']|[\d_]", "", part).upper() for part in parts
            ]
            ids = self.tokenizer.encode(" ".join("".join(loud).split()))
            yield index, [Hypothesis(ids, -1.0, -1.0, finished=True)]


def _weights_of_equal_words(self, pairs, words):
    """Align the words of each pair that are equal but for their case, the first with the first, and so on."""
    found = []
    for (src, tgt), (src_words, tgt_words) in zip(pairs, words, strict=True):
        texts = [src[start:end].casefold() for start, end in src_words]
        weights = np.zeros((len(tgt_words), len(src_words)))
        taken = set()
        for row, (start, end) in enumerate(tgt_words):
            same = [at for at, text in enumerate(texts) if text == tgt[start:end].casefold() and at not in taken]
            if same:
                taken.add(same[0])
                weights[row, same[0]] = 1.0
        found.append(weights)
    return found


@pytest.fixture(scope="module")
def translator(tmp_path_factory) -> Translator:
    letters = "abcdefghijklmnopqrstuvwxyzéABCDEFGHIJKLMNOPQRSTUVWXYZÉ.,?!'"
    cfg = TokenizerConfig.model_validate({"type": "char", "vocab_size": 400})
    tokenizer = train_tokenizer([" ".join(letters), letters], cfg, tmp_path_factory.mktemp("loud") / "any.spm")
    decode = DecodeConfig(on_suspect="off", beam_size=1, max_src_tokens=512)
    return Translator(LoudEngine(tokenizer), tokenizer, tokenizer, decode, tgt_lang="fr")


def _text(raw: bytes) -> str:
    if not raw.startswith(b"PK"):
        return raw.decode("utf-8", "replace")
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        return "\n".join(archive.read(name).decode("utf-8") for name in archive.namelist())


def _problems(case: Case, result: TranslatedDocument) -> list[str]:
    text, left = _text(result.raw), [note.src for note in result.notes if note.kind == LEFT]
    return [
        *(f"has not {fragment!r}" for fragment in case.has if fragment not in text),
        *(f"has {fragment!r}" for fragment in case.lacks if fragment in text),
        *(
            f"neither translates nor reports {fragment!r}"
            for fragment in case.reported
            if fragment.upper() not in text and not any(fragment in src for src in left)
        ),
    ]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.xfail(strict=True, reason=case.fails) if case.fails else ())
        for name, case in sorted(CASES.items())
    ],
)
def test_a_document_keeps_what_is_not_language(name, translator, monkeypatch):
    monkeypatch.setattr(Aligner, "weights", _weights_of_equal_words)
    path, case = FOLDER / name, CASES[name]
    options = replace(case.options, format=format_of(path, case.options))
    result = translate_bytes(translator, path.read_bytes(), options)
    problems = _problems(case, result)
    assert not problems, "\n".join([*problems, _text(result.raw)])


def test_each_document_has_a_row():
    assert sorted(CASES) == sorted(path.name for path in FOLDER.iterdir())

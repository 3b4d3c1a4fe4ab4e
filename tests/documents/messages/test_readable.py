"""Which strings of programs are language, and what is a placeholder in them."""

import pytest

from mtkit.documents.messages.readable import is_language
from mtkit.text.placeholders import placeholder_pattern


@pytest.mark.parametrize(
    "text",
    [
        "Cancel",
        "3rd-party",
        "%{field} was added.",
        "a yummy mess",
        "cancel",
        "Loading...",
        "Yes",
        "OK",
        "Email:",
        "(optional)",
        "File(s)",
        "Yes/No",
        "Données",
        "取消",
        "Sign in",
        "Save & close",
        "<b>Bold</b>",
        "%d files",
        "{count} items",
        "You",
        "of",
        "Save!",
        "«Fermer»",
        "été",
        "%d de %B de %Y",
        "50 % de",
        "Visit https://example.org now",
        "and/or more",
        "Hello\nWorld",
        "Don't",
        "Caf&eacute;",
    ],
)
def test_text_for_people_is_language(text):
    assert is_language(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "123",
        "100%",
        "en-US",
        "fr_FR",
        "zh-Hans",
        "zh-Hant-TW",
        "text/html",
        "text/html; charset=utf-8",
        "#ff0000",
        "MM/DD/YYYY",
        "dd.MM.yyyy HH:mm",
        "YYYY-MM-DD",
        "h:mm a",
        "yyyyMMdd HHmmss",
        ":year",
        "%Y-%m-%d",
        "%a, %d %b %Y",
        "{name}",
        "%s",
        "%1$s: %2$@",
        "{{count}}/{{total}}",
        "https://example.org/a",
        "mailto:a@b.org",
        "/usr/share/doc",
        "./src/index.js",
        "images/logo.png",
        "C:\\Users",
        "my_key",
        "MY_KEY",
        "camelCase",
        "app.title",
        "my-slug",
        "btn-primary",
        "v1.2.3",
        "4f2a9c",
        "utf-8",
        "UTF-8",
        "2024-01-01T00:00:00Z",
        "rgba(0, 0, 0, 0.5)",
        "0 1px 2px",
        "$t(common.ok)",
        "&nbsp;",
        "@:common.ok",
        "->",
        "--verbose",
        "M10 10 L20 20 z",
        "a@b.org",
    ],
)
def test_what_programs_read_is_not(text):
    assert not is_language(text)


def test_a_word_in_lower_case_is_no_language_under_a_technical_key():
    assert not is_language("primary", "type") and not is_language("en", "lang") and not is_language("rtl", "text-dir")
    assert is_language("Primary", "type") and is_language("en", "in") and is_language("a kind", "type")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("%{name} has %<n>d", ["%{name}", "%<n>d"]),
        ('See $t(other.key, {"n": 1}) and $t(x)', ['$t(other.key, {"n": 1})', "$t(x)"]),
        ("%1$s of %@ and %2$d", ["%1$s", "%@", "%2$d"]),
        ("{0} {{name}} ${x} {date, date, short} { n }", ["{0}", "{{name}}", "${x}", "{date, date, short}", "{ n }"]),
        ("Press @:keys.ok or @.lower:keys.no.", ["@:keys.ok", "@.lower:keys.no"]),
        ("50 % de", []),
        ("100%", []),
        ("100 %.", []),
        ("{not a name}", []),
        ("a, b: c", []),
        ("me @ home: x", []),
        (":name", []),  # Laravel's, but also prose
        ("costs $t", []),
    ],
)
def test_placeholders_are_found_and_nothing_else(text, wanted):
    assert placeholder_pattern().findall(text) == wanted

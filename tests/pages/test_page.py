"""Pages: templates filled, escaped and written whole; how numbers are written."""

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from mtkit import __version__
from mtkit.pages.page import duration, environment, fixed, thousands, write_page

PAGE = "{% extends 'base.html.j2' %}{% block content %}%s{% endblock %}"


def filled(content, **values):
    return environment().from_string(PAGE.replace("%s", content)).render(title="t", **values)


def test_a_page_is_one_html_file_with_its_title_and_the_version(tmp_path):
    write_page(tmp_path / "new" / "page.html", "base", title="A page")
    text = (tmp_path / "new" / "page.html").read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "<h1>A page</h1>" in text and "<title>A page</title>" in text and f"made by mtkit {__version__}" in text


def test_text_is_escaped_wherever_it_stands_and_markup_is_not():
    text = filled("{{ a }}|{{ b }}", a="<script>1</script> & 'x'", b=Markup("<b>1</b>"))
    assert "&lt;script&gt;1&lt;/script&gt; &amp; &#39;x&#39;|<b>1</b>" in text


def test_data_for_a_script_cannot_end_the_script():
    text = filled('<script type="application/json">{{ data | tojson }}</script>', data=["</script><b>", "œuf"])
    assert '<script type="application/json">["\\u003c/script\\u003e\\u003cb\\u003e","œuf"]</script>' in text


def test_data_that_json_cannot_hold_are_refused_instead_of_leaving_a_page_without_figures():
    with pytest.raises(ValueError, match="JSON"):
        filled("{{ data | tojson }}", data=[float("nan")])


def test_a_missing_value_is_an_error_and_keeps_the_old_page(tmp_path):
    page = tmp_path / "page.html"
    page.write_text("old")
    with pytest.raises(UndefinedError, match="'title' is undefined"):
        write_page(page, "base", title=environment().undefined(name="title"))  # type: ignore[arg-type]
    assert page.read_text() == "old" and [entry.name for entry in tmp_path.iterdir()] == ["page.html"]


def test_the_page_forbids_its_browser_the_network():
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in filled("")


def test_numbers_are_written_for_people():
    written = [fixed(-0.26), fixed(34.256, 2), fixed(-0.01), fixed(None)]
    assert written == ["\N{MINUS SIGN}0.3", "34.26", "0.0", "\N{EN DASH}"]
    space = "\N{NARROW NO-BREAK SPACE}"
    assert [thousands(999), thousands(1234567), thousands(None)] == ["999", f"1{space}234{space}567", "\N{EN DASH}"]
    assert [duration(3723.4), duration(59.6), duration(None)] == ["1:02:03", "0:01:00", "\N{EN DASH}"]

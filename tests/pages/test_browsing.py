"""Pages in a real browser; and that what looks at them finds each fault that it is there to find."""

import math

import pytest
from browsing import check_page, open_page

from mtkit.pages.charts import Bars, Point, Series, bar_chart, line_chart, scatter_chart
from mtkit.pages.page import environment

ALL_PARTS = """{% extends "base.html.j2" %}
{% block content %}
<p>Some <code>code</code>, <a href="#here">a link</a>, <span class="good">good</span>, <span class="bad">bad</span>,
<small>small print</small>, <ins>added</ins>, <del>left out</del>.</p>
<dl class="facts"><div><dt>BLEU</dt><dd>{{ 34.256|fixed }}</dd></div>
<div><dt>Time</dt><dd>{{ 3723|duration }}</dd></div></dl>
<h2 id="here">Charts</h2>
{{ lines }}{{ bars }}{{ points }}
<div class="controls"><label>Layer <select><option>1</option></select></label>
<button aria-pressed="true">on</button><button aria-pressed="false">off</button></div>
<div class="scroll" tabindex="0" role="region" aria-label="Figures"><table><caption>Wide</caption>
<thead><tr>{% for i in range(20) %}<th class="number">column {{ i }}</th>{% endfor %}</tr></thead>
<tbody><tr>{% for i in range(20) %}<td class="number">{{ i }}</td>{% endfor %}</tr></tbody></table></div>
<pre>{{ "I love oranges. " * 20 }}</pre>
{% endblock %}"""

ON_A_BOX = '<svg fill="currentColor"><rect width="90" height="30"/><text y="20">on a box</text></svg>'


@pytest.fixture
def page_of(tmp_path):
    def write(content, style="", script="", **values):
        text = content
        if "extends" not in content:
            blocks = {"style": style, "content": content, "script": script}
            text = "{% extends 'base.html.j2' %}" + "".join(
                f"{{% block {name} %}}{block}{{% endblock %}}" for name, block in blocks.items()
            )
        path = tmp_path / "page.html"
        path.write_text(environment().from_string(text).render(title="Trial", **values), encoding="utf-8")
        return path

    return write


def test_all_that_the_base_offers_reads_well_everywhere(browser, page_of, tmp_path):
    steps = range(100, 5100, 100)
    series = [Series("train", steps, [6 / math.sqrt(x) for x in steps])]
    series += [Series(f"line {i}", [100, 5000], [i, i / 2]) for i in range(1, 9)]  # every colour
    lines = line_chart(series, x_label="step", y_label="nats", title="Loss")
    bars = bar_chart(["a", "b" * 40], [Bars("ours", [3, -1], [2, -2], [4, 0])], y_label="BLEU", title="By length")
    places = [Point("teacher", 3640, 39, "27 MB"), Point("student", 5972, 37, "11 MB")]
    points = scatter_chart(places, x_label="words a second", y_label="BLEU", title="Quality and speed")
    check_page(browser, page_of(ALL_PARTS, lines=lines, bars=bars, points=points), tmp_path)
    assert list(tmp_path.glob("*.png")) == []


@pytest.mark.parametrize(
    ("content", "style", "fault"),
    [
        ('<p style="color:#777;background:#fff">grey</p>', "", "contrast 4.48"),  # known pairs of WCAG
        ('<p style="color:#000;background:#fff;opacity:0.4">faded</p>', "", "contrast"),
        ('<p style="color:#000">black</p>', "", "page-dark-1400: contrast"),
        (ON_A_BOX, "", "contrast"),
        ('<p style="width:500px">wide</p>', "", "px too wide"),
        ('<span role="button" onclick="1">mouse only</span>', "", "Tab never reaches"),
        ("<button></button>", "", "nothing names"),
        ("<button>on</button>", "button:focus-visible { outline: none; }", "cannot see the focus"),
    ],
)
def test_a_fault_of_the_page_is_found(browser, page_of, tmp_path, content, style, fault):
    with pytest.raises(AssertionError, match=fault):
        check_page(browser, page_of(content, style), tmp_path)
    assert len(list(tmp_path.glob("page-*.png"))) == 1


def test_values_just_within_the_limits_are_accepted(browser, page_of, tmp_path):
    content = (
        '<p style="color:#767676;background:#fff">grey</p><p style="color:#949494;background:#fff;font-size:24px">'
    )
    radios = "".join(f"<label><input type='radio' name='r'>{letter}</label>" for letter in "ab")  # arrow keys walk them
    check_page(browser, page_of(f"{content}large</p>{radios}"), tmp_path)


@pytest.mark.parametrize(
    ("content", "script", "fault"),
    [
        ("", "<script>undefinedFunction()</script>", "script: undefinedFunction is not defined"),
        ("", "<script>console.error('oh')</script>", "console: oh"),
        ('<img alt="a" src="http://192.0.2.1/a.png">', "", "console: .*192.0.2.1"),  # the page's own policy stops it
        ('<img alt="a" src="other.png">', "", "other.png"),
    ],
)
def test_a_failing_script_or_a_network_request_is_found(browser, page_of, content, script, fault):
    with pytest.raises(AssertionError, match=fault), open_page(browser, page_of(content, script=script)):
        pass


def test_a_second_file_is_found_even_where_it_is_there(browser, tmp_path):
    (tmp_path / "other.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')
    page = tmp_path / "page.html"
    page.write_text("<!doctype html><title>Two files</title><img alt='a' src='other.svg'>")  # without mtkit's policy
    with pytest.raises(AssertionError, match=r"network: .*other\.svg"), open_page(browser, page):
        pass

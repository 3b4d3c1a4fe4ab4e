"""Pages of hostile text in a browser: the text is shown, and none of it is executed."""

import html
import re

import pytest
from browsing import open_page
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.evaluation.comparison.comparison import SortedTestSet, compare
from mtkit.evaluation.comparison.features import find_features
from mtkit.evaluation.comparison.page import write_report as write_comparison
from mtkit.evaluation.comparison.systems import System
from mtkit.evaluation.metrics.significance import Chance
from mtkit.pages.page import write_page
from mtkit.runs.report import write_report

HIT = "window.hit=1"
HOSTILE = [
    *(
        f"<script>{HIT}</script>",
        f"</script><script>{HIT}</script>",
        f"<img src=x onerror={HIT}>",
        f"</style><svg onload={HIT}>",
    ),
    *(
        f'" autofocus onfocus={HIT} x="',
        f"' onmouseover='{HIT}",
        f"javascript:{HIT}",
        f"<!--<script>{HIT}//-->",
        f"]]>&#60;script&#62;{HIT}",
    ),
    *(
        "{{ 7*7 }}{% raw %}",
        "&lt;b&gt;&amp;",
        "\u202etxt.exe",
        "\u2028\u2029",
        f"\\u003cscript\\u003e{HIT}",
        f"${{{HIT}}}`;{HIT};//",
    ),
]
SENTENCE = " ".join(HOSTILE[:4])


def assert_harmless(browser, path) -> None:
    """Open the page, and use what can be used; assert that no text of it became an element or was executed."""
    with open_page(browser, path) as page:
        for control in page.query_selector_all("button, summary, select, input")[:12]:
            if control.is_visible() and control.is_enabled():
                control.focus()
                control.press("Enter")
        assert page.evaluate("window.hit") is None, path.name
        assert page.query_selector("[onerror], [onload], [onfocus], [onmouseover], img[src=x]") is None, path.name


def test_hostile_systems_and_sentences_in_a_comparison(browser, tmp_path):
    sources, references = HOSTILE, HOSTILE[::-1]
    systems = [
        System(f"<b>{HIT}</b> & 'a'", [*HOSTILE[1:], "x"]),
        System(f"</script><script>{HIT}</script>", references),
    ]
    features = find_features(sources, [references], src_lang="en")
    path = tmp_path / "compare.html"
    write_comparison(path, compare(systems, SortedTestSet(sources, [references], features), chance=Chance(20, 100)))
    assert_harmless(browser, path)
    shown = html.unescape(re.sub(r"<[^>]*>", "", path.read_text(encoding="utf-8")))
    assert HOSTILE[0] in shown


@pytest.mark.parametrize(
    "command", ["attention", *(pytest.param(name, marks=pytest.mark.slow) for name in ("steps", "saliency", "masks"))]
)
def test_a_hostile_sentence_in_a_page_of_inspect(browser, shared_bundle, tmp_path, command):
    path = tmp_path / f"{command}.html"
    text = HOSTILE[1] if command in ("attention", "saliency") else SENTENCE  # those draw 80 tokens at most
    done = CliRunner().invoke(app, ["inspect", command, text, "--model", str(shared_bundle), "--output", str(path)])
    assert path.exists(), done.output
    assert_harmless(browser, path)


def test_a_hostile_report(browser, bundle_of_a_run, tmp_path, monkeypatch):
    """Samples, names and languages of a run are text that someone else has written."""
    run_dir = bundle_of_a_run.parent
    monkeypatch.setattr(
        "mtkit.runs.report.write_page",
        lambda path, *args, **values: write_page(tmp_path / "report.html", *args, **_hostile(values)),
    )
    write_report(run_dir)
    assert_harmless(browser, tmp_path / "report.html")
    assert "&lt;script&gt;" in (tmp_path / "report.html").read_text(encoding="utf-8")


def _hostile(values):
    """Add hostile text to every plain text of a page's values, at any depth."""
    if type(values) is str:
        return f"{values} {SENTENCE}"
    if isinstance(values, dict):
        return {key: _hostile(value) for key, value in values.items()}
    if type(values) in (list, tuple):
        return type(values)(map(_hostile, values))
    return values

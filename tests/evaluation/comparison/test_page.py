"""The page of a comparison: its content, and its behaviour in a browser."""

from typing import Any

import pytest
from browsing import check_page, open_page

from mtkit.evaluation.comparison import page
from mtkit.evaluation.comparison.comparison import SortedTestSet, compare
from mtkit.evaluation.comparison.features import find_features
from mtkit.evaluation.comparison.page import write_report
from mtkit.evaluation.comparison.systems import System
from mtkit.evaluation.metrics.buckets import CountedSentences
from mtkit.evaluation.metrics.significance import Chance

N = 64
SOURCES = [f"Tom has {n} cats{'?' if n % 2 else '.'}" for n in range(N)]
REFERENCES = [f"Tom a {n} chats{' ?' if n % 2 else '.'}" for n in range(N)]
NASTY = '</script><b>1 & "2"</b> {{ 3 }}'
OLD = [REFERENCES[0], NASTY, *REFERENCES[2:]]
NEW = [line.replace("chats", "chiens") if n % 4 == 0 else line for n, line in enumerate(REFERENCES)]
OTHER = ["", *REFERENCES[1:]]
CONFIDENT: dict[str, Any] = {"confidences": [0.2 + 0.7 * (n % 2) for n in range(N)], "good_chrf": 60.0}


def comparison(*systems: System, sources=SOURCES, references=REFERENCES):
    features = find_features(sources, [references], src_lang="en")
    return compare(systems, SortedTestSet(sources, [references], features), chance=Chance(40, 200))


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "two.html"
    write_report(path, comparison(System("old <one>", OLD, **CONFIDENT), System("new", NEW)))
    return path


def test_text_is_never_taken_for_html(report):
    text = report.read_text(encoding="utf-8")
    assert "<b>1" not in text and text.count("</script>") == 2
    assert "old &lt;one&gt;" in text and "old <one>" not in text


def test_the_words_that_differ_are_marked_by_more_than_colour(report):
    text = report.read_text(encoding="utf-8")
    assert "<dd>Tom a 4 <del>chats</del>.</dd>" in text
    assert "<dd>Tom a 4 <ins>chiens</ins>.</dd>" in text


def test_the_total_rows_are_the_corpus_scores(report):
    scores = [CountedSentences(texts, [REFERENCES]).score().scores for texts in (OLD, NEW)]
    text = report.read_text(encoding="utf-8")
    for row in text.split('<tr class="all">')[1:]:
        cells = row.partition("</tr>")[0]
        for found in scores:
            assert f">{found['BLEU']:.2f}<" in cells and f">{found['chrF2']:.2f}<" in cells
    assert text.count('<tr class="all">') == 1  # all are alike but by questions
    assert "All sentences are of one kind: in digits." in text


def test_it_reads_well_in_a_browser(browser, tmp_path):
    path = tmp_path / "three.html"
    write_report(path, comparison(System("old", OLD, **CONFIDENT), System("new", NEW), System("other", OTHER)))
    check_page(browser, path, tmp_path)


def test_the_table_is_sorted_and_filtered_by_keyboard(browser, report):
    lines = "[...document.querySelectorAll('#sentences tbody tr')].map(row => Number(row.cells[0].textContent))"
    with open_page(browser, report) as page:
        assert page.evaluate(lines)[0] == 2  # the largest gain: the nasty line
        assert page.locator("#count").inner_text() == f"1 to 50 of {N} sentences"
        page.locator("#next").focus()
        page.keyboard.press("Enter")
        assert page.locator("#count").inner_text() == f"51 to {N} of {N} sentences"
        assert page.evaluate("document.querySelector('th[aria-sort]').ariaSort") == "descending"
        page.get_by_label("outcome").select_option("worse")
        losses = page.evaluate(
            "[...document.querySelectorAll('#sentences tbody tr')].map(row => row.lastChild.textContent)"
        )
        sizes = [float(loss.removeprefix("−")) for loss in losses]
        assert sizes[0] == max(sizes) > sizes[-1]  # the largest loss first
        page.get_by_label("outcome").select_option("any")
        assert page.evaluate(lines)[0] == 2
        page.locator("[data-key=line]").focus()
        page.keyboard.press("Enter")
        assert page.evaluate(lines) == list(range(1, 51))
        assert page.evaluate("document.activeElement.dataset.key") == "line"
        page.keyboard.press("Enter")
        assert page.evaluate(lines)[:2] == [N, N - 1]
        page.get_by_label("outcome").select_option("worse")
        assert page.evaluate(lines) == [n + 1 for n in range(N - 1, -1, -1) if n % 4 == 0]
        page.get_by_label("kind").select_option("question")
        assert page.evaluate(lines) == []
        assert page.locator("#count").inner_text() == "no sentence matches"
        page.get_by_label("outcome").select_option("any")
        assert page.evaluate(lines) == [n + 1 for n in range(N - 1, -1, -1) if n % 2]
        page.get_by_label("contains").fill("TOM HAS 7 ")
        assert page.evaluate(lines) == [8]


def test_of_three_systems_two_are_chosen_for_the_table(browser, tmp_path):
    path = tmp_path / "three.html"
    write_report(path, comparison(System("old", OLD), System("new", NEW), System("other", OTHER)))
    with open_page(browser, path) as page:
        page.get_by_label("compared").select_option("other")
        page.locator("[data-key=difference]").click()  # the largest loss first
        first = page.locator("#sentences tbody tr").first
        assert first.locator("del").inner_text() == "Tom a 0 chats."
        assert "empty" in first.inner_text()
        page.get_by_label("looks broken").select_option("empty")
        assert page.locator("#sentences tbody tr").count() == 1


def test_a_large_test_set_shows_only_the_largest_differences(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "_MAX_BYTES", 3000)
    path = tmp_path / "large.html"
    write_report(path, comparison(System("old", OLD), System("new", NEW)))
    text = path.read_text(encoding="utf-8")
    assert f"of {N} sentences on which the systems differ most" in text
    data = text.partition('id="data">')[2].partition("</script>")[0]
    assert len(data.encode()) < 4500
    assert "\\u003c/script\\u003e" in data  # the nasty line differs most


@pytest.mark.slow
def test_a_report_of_thousands_of_long_sentences_stays_under_two_megabytes(tmp_path):
    sources = [f"{n} " + "The quick brown fox jumps over the lazy dog. " * 3 for n in range(2000)]
    other = [source.replace("fox", "cat") for source in sources]
    path = tmp_path / "long.html"
    features = find_features(sources, [sources], src_lang="en")
    write_report(
        path,
        compare(
            [System("a", sources), System("b", other)], SortedTestSet(sources, [sources], features), chance=Chance(2, 2)
        ),
    )
    assert path.stat().st_size < 2_000_000


def test_the_calibration_of_a_confidence_is_drawn(report):
    text = report.read_text(encoding="utf-8")
    assert "confidence and share of good ones" in text
    assert "calibration error" in text

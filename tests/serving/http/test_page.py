"""The page for people, in a real browser: reading it, and translating a text."""

import re
from base64 import b64encode
from hashlib import sha256
from http.client import HTTPConnection

import pytest
from browsing import check_page
from translation_page import (
    NASTY,
    TEXT,
    as_file,
    choose,
    finished,
    ready,
    translation,
    until,
    wait_for,
    word,
    write,
)

# Reading and reaching


def test_it_reads_well_and_can_be_used_by_keyboard_everywhere(site, tmp_path):
    site.script.faults = {"Dogs run.": ["loop", "number"]}
    site.script.confidences = {"It rains.": 0.2}
    site.script.probabilities = {"chiens": 0.1}
    site.script.others = {"chiens": [("chats", 0.2), ("loups", 0.004)]}

    def full(page):
        write(page, TEXT)
        page.wait_for_selector(".uncertain")
        page.click("#terms summary")
        page.fill("#term-rows input >> nth=0", "Dogs")
        page.fill("#term-rows input >> nth=1", "chiens")
        page.set_input_files("#files", [as_file("a.exe"), as_file("b.txt")])
        page.wait_for_selector("#jobs a")
        page.wait_for_selector("#term-rows .how:not(:empty)")

    def others(page):
        write(page, TEXT)
        word(page, "chiens").click()
        page.wait_for_selector("#others button")

    address = f"{site.address}/"
    check_page(site.browser, address, tmp_path)
    check_page(site.browser, address, tmp_path, full, "full")
    with site.open("dark", 375) as page:
        others(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        box = page.locator("#others").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 375


def test_the_chosen_colours_stay(site):
    paper = "getComputedStyle(document.body).backgroundColor"
    with site.open("light") as page:
        light = page.evaluate(paper)
        page.click("#theme")
        dark = page.evaluate(paper)
        assert dark != light
        page.reload()
        assert page.evaluate(paper) == dark
        page.click("#theme")
        assert page.evaluate(paper) == light
    with site.open("dark") as page:
        assert page.evaluate(paper) == dark
        page.click("#theme")
        assert page.evaluate(paper) == light


def test_the_policy_lets_only_the_pages_own_script_and_style_run(site):
    connection = HTTPConnection(site.address.removeprefix("http://"))
    connection.request("GET", "/")
    reply = connection.getresponse()
    html, policy = reply.read().decode(), reply.getheader("Content-Security-Policy", "")
    connection.close()
    assert "unsafe" not in policy and "default-src 'none'" in policy and "connect-src 'self'" in policy
    for tag in "script", "style":
        [content] = re.findall(f"<{tag}[^>]*>(.*?)</{tag}>", html, re.DOTALL)
        assert f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'" in policy
    assert not re.search(r"\son\w+=|\sstyle=|(src|href)=\"(?!data:)", html)


def test_without_the_page_there_is_only_the_service(make_site):
    connection = HTTPConnection(make_site(page=False).address.removeprefix("http://"))
    connection.request("GET", "/")
    assert connection.getresponse().status == 404
    connection.close()


# Translating


def test_a_text_is_translated_while_it_is_typed(site):
    with site.open() as page:
        choose(page)
        page.locator("#text").press_sequentially("It rains.", delay=10)
        until(page, "Il pleut.")
        page.locator("#text").press_sequentially(" Dogs run.", delay=10)
        until(page, "Il pleut. Les chiens courent.")
        assert page.locator("#translation").get_attribute("lang") == "fr"
        wait_for(page, "document.querySelector('#spoken').textContent === translationText()")
        page.click("#clear")
        assert translation(page) == "" and page.input_value("#text") == ""


def test_what_is_cleared_while_it_is_translated_stays_cleared(site):
    site.script.held = {"It rains."}
    with site.open() as page:
        choose(page)
        page.fill("#text", "It rains.")
        while not site.script.begun:
            page.wait_for_timeout(20)
        page.click("#clear")
        let_go(page, site, "It rains.")
        assert translation(page) == "" and page.locator("#translation").get_attribute("aria-busy") == "false"


@pytest.mark.parametrize("aborts", [True, False])
def test_an_older_translation_never_replaces_a_newer_one(site, aborts):
    site.script.held = {"Dogs run."}
    with site.open() as page:
        if not aborts:  # as if the old reply were on its way already
            page.evaluate("() => { AbortController.prototype.abort = () => {}; }")
        choose(page)
        page.fill("#text", "Dogs run.")
        while "Dogs run." not in site.script.begun:
            page.wait_for_timeout(20)
        page.fill("#text", "It rains.")
        until(page, "Il pleut.")
        while aborts and not site.script.given_up:
            page.wait_for_timeout(20)
        let_go(page, site, "Dogs run.")
        assert translation(page) == "Il pleut."
    assert ("Dogs run." in site.script.ended) != aborts


def let_go(page, site, sentence):
    """Let the service end a sentence that it holds, unless it has given it up, and give the page time for the reply."""
    site.script.held.clear()
    while sentence not in site.script.ended + site.script.given_up:
        page.wait_for_timeout(20)
    page.wait_for_timeout(300)


def test_the_old_translation_is_dimmed_until_the_new_one_comes(site):
    site.script.held = {"Dogs run."}
    with site.open() as page:
        write(page, "It rains.")
        page.fill("#text", "Dogs run.")
        assert page.locator("#translation.stale").count() == 1 and translation(page) == "Il pleut."
        site.script.held.clear()
        until(page, "Les chiens courent.")
        assert page.locator("#translation.stale").count() == 0


def test_a_long_translation_is_shown_sentence_by_sentence(site):
    site.script.held = {"It rains.", "Dogs run."}
    with site.open() as page:
        choose(page)
        page.fill("#text", TEXT)
        while not site.script.begun:
            page.wait_for_timeout(20)
        page.wait_for_timeout(page.evaluate("PART_MS"))  # a translation that takes less is shown at its end
        site.script.held.discard("It rains.")
        until(page, "Il pleut.")
        site.script.held.clear()
        until(page, "Il pleut. Les chiens courent.\n\nIl pleut.")


def test_markup_in_a_translation_is_text(site):
    site.script.translations = {"It rains.": f"Il {NASTY} pleut."}
    site.script.faults = {"It rains.": ["loop"]}
    site.script.others = {"Il": [(NASTY, 0.5)]}
    with site.open() as page:
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        write(page, "It rains.")
        assert translation(page) == f"Il {NASTY} pleut."
        word(page, "Il").click()
        page.wait_for_selector("#others button")
        assert page.locator("main img, main script").count() == 0
        page.click("#others button >> nth=0")
        until(page, f"{NASTY} and so on.")
        assert page.locator("main img, main script").count() == 0


def test_the_way_through_another_language_is_named_and_words_are_plain(site):
    with site.open() as page:
        write(page, "It rains.", target="de")
        assert page.inner_text("#path") == "via French"
        assert page.locator(".word").count() > 0 and page.locator(".word[role]").count() == 0
        page.click("#terms summary")
        assert "directly between" in page.inner_text("#terms-note")


def test_a_translation_from_right_to_left_runs_so(site):
    site.script.translations = {"It rains.": "إنها تمطر الآن."}
    with site.open() as page:
        write(page, "It rains.", target="ar")
        assert page.evaluate("getComputedStyle(document.querySelector('#translation')).direction") == "rtl"
        page.focus("#translation .word[tabindex='0']")
        page.keyboard.press("ArrowLeft")
        assert page.evaluate("document.activeElement.textContent") == "تمطر"


def test_a_text_that_is_too_long_is_not_sent(make_site):
    site = make_site(limits={"max_chars": 20})
    with site.open() as page:
        write(page, "It rains.")
        page.fill("#text", "x" * 19 + "\N{GRINNING FACE}" * 2)  # 21 characters, though 23 units of UTF-16
        page.wait_for_timeout(400)
        assert page.inner_text("#count") == "21 of 20 characters: 1 too many"
        assert site.script.begun == ["It rains."]


def test_a_text_that_is_too_long_keeps_the_translation_and_says_so_in_view(make_site):
    site = make_site(limits={"max_chars": 200})
    with site.open(width=400) as page:
        write(page, "It rains.")
        page.fill("#text", "It rains.\n" * 100)
        page.wait_for_selector("#status:has-text('too long')")
        assert translation(page) == "Il pleut." and "800 characters" in page.inner_text("#status")
        page.evaluate("scrollTo(0, 0)")
        box = page.locator("#status").bounding_box()
        assert box["y"] + box["height"] <= 900  # the height of the window
        write(page, "Dogs run.")
        assert translation(page) == "Les chiens courent." and page.inner_text("#status") == ""


def test_a_first_visit_does_not_translate_into_the_visitors_own_language(site):
    with site.open() as page:  # in English
        ready(page)
        assert page.input_value("#source") == "auto"
        assert page.input_value("#target") == "fr"


def test_the_menus_are_on_one_line_on_a_phone(site):
    with site.open(width=375) as page:
        write(page, "The cat sleeps under the table and the old man reads his newspaper.", source="auto")
        assert page.inner_text("#found") == "English"
        source, target = (page.locator(menu).bounding_box() for menu in ("#source", "#target"))
        assert source["y"] == target["y"] and source["width"] == pytest.approx(target["width"], abs=1)


def test_the_languages_are_swapped_with_the_texts(site):
    site.script.translations["Il pleut."] = "It rains."
    with site.open() as page:
        write(page, "It rains.")
        page.click("#swap")
        until(page, "It rains.")
        assert page.input_value("#text") == "Il pleut."
        assert (page.input_value("#source"), page.input_value("#target")) == ("fr", "en")
        page.reload()
        ready(page)
        assert (page.input_value("#source"), page.input_value("#target")) == ("fr", "en")


def test_swapping_back_brings_back_what_was_typed(site):
    with site.open() as page:
        write(page, "It rains.")
        page.click("#swap")
        finished(page)
        assert (page.input_value("#text"), translation(page)) == ("Il pleut.", "IL PLEUT.")
        page.click("#swap")
        finished(page)
        assert (page.input_value("#text"), translation(page)) == ("It rains.", "Il pleut.")


def test_swapping_before_the_translation_is_there_keeps_what_was_typed(site):
    site.script.held = {"Dogs run."}
    with site.open() as page:
        write(page, "It rains.")
        page.fill("#text", "Dogs run.")
        page.click("#swap")
        assert page.input_value("#text") == "Dogs run." and page.input_value("#source") == "fr"
        let_go(page, site, "Dogs run.")


def test_the_language_is_found_out_or_asked_for(site):
    text = "The cat sleeps under the table and the old man reads his newspaper."
    with site.open() as page:
        write(page, text, source="auto")
        assert page.inner_text("#found") == "English" and translation(page) == text.upper()
        page.fill("#text", "De trein naar Berlijn vertrekt vandaag helaas later.")
        finished(page)
        assert translation(page) == "" and "cannot translate" in page.inner_text("#status")
        page.fill("#text", "Submit")
        finished(page)
        assert translation(page) == "SUBMIT" and "not clear" in page.inner_text("#status")
        page.click("#status button:text-is('French')")
        wait_for(page, "at('source').value === 'fr'")


def test_a_translation_is_copied(site):
    with site.open() as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        write(page, TEXT)
        page.click("#copy")
        page.wait_for_selector("#copy:text-is('Copied')")
        assert page.evaluate("navigator.clipboard.readText()") == "Il pleut. Les chiens courent.\n\nIl pleut."

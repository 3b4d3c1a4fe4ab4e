"""The page for people, in a real browser, over a service whose models are scripts."""

import re
import time
from base64 import b64encode
from hashlib import sha256
from http.client import HTTPConnection

import pytest
from browsing import check_page, open_page
from scripted_service import running, scripted_backend

from mtkit.serving.records.key_file import add_key
from mtkit.serving.refusals import Busy

PAIRS = ("en", "fr"), ("fr", "en"), ("fr", "de"), ("en", "ar")
TEXT = "It rains. Dogs run.\n\nIt rains."
FRENCH = {"It rains.": "Il pleut.", "Dogs run.": "Les chiens courent."}
NASTY = "<img src=x onerror=alert(1)><script>alert(2)</script>"


class Site:
    """A service and its script, opened in pages."""

    def __init__(self, browser, backend, script, address):
        self.browser, self.backend, self.script, self.address = browser, backend, script, address

    def open(self, *args, **kwargs):
        return open_page(self.browser, f"{self.address}/", *args, **kwargs)


@pytest.fixture
def make_site(browser):
    contexts = []

    def make(**values):
        backend, script = scripted_backend(PAIRS, **values)
        script.translations = dict(FRENCH)
        contexts.append(running(backend))
        return Site(browser, backend, script, contexts[-1].__enter__())

    yield make
    for context in contexts:
        context.__exit__(None, None, None)


@pytest.fixture
def site(make_site):
    return make_site()


def write(page, text, source="en", target="fr"):
    """Choose the languages, put a text in, and wait for its translation."""
    choose(page, source, target)
    page.fill("#text", text)
    finished(page)


def choose(page, source="en", target="fr"):
    page.select_option("#source", source)
    page.select_option("#target", target)


def finished(page):
    wait_for(page, "!at('translation').matches('.stale') && at('translation').ariaBusy === 'false' && timer === null")


def wait_for(page, condition, argument=None):
    """Playwright's own would evaluate a string in the page, which the page's policy forbids."""
    deadline = time.monotonic() + 300
    while not page.evaluate(f"argument => {condition}", argument):
        assert time.monotonic() < deadline, f"never {condition} ({argument}); {translation(page)}"
        page.wait_for_timeout(20)


def translation(page):
    return page.evaluate("translationText()")


def until(page, text):
    wait_for(page, "translationText() === argument", text)


def word(page, text):
    return page.locator(f"#translation .word:text-is('{text}')").first


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


# Sentences and words


def test_a_sentence_is_shown_on_both_sides(site):
    marked = "Array.from(document.querySelectorAll('.pointed'), one => one.textContent)"
    with site.open() as page:
        write(page, TEXT)
        word(page, "chiens").hover()
        assert page.evaluate(marked) == ["Dogs run.", "Les chiens courent."]
        box = page.locator("#text").bounding_box()
        page.mouse.move(box["x"] + 25, box["y"] + 25)
        assert page.evaluate(marked) == ["It rains.", "Il pleut."]
        assert page.evaluate("document.querySelector('.sentence.pointed').dataset.part") == "0"
        page.evaluate("at('text').focus(); at('text').setSelectionRange(25, 25)")  # in the last sentence
        wait_for(page, "document.querySelector('.sentence.pointed')?.dataset.part === '4'")


def test_sentences_of_a_wrapped_paragraph_are_found_in_text_and_translation(site):
    line = "The old man who lives in the big house near the river does not like the rain at all, but"
    rest = "his two big dogs and the neighbour's grey cat love it more than anything. It"
    text = f"{line}\n{rest}\nrains."
    site.script.translations[f"{line} {rest}".removesuffix(" It")] = "Le vieil homme " * 8 + "aime la pluie."
    with site.open() as page:
        write(page, text)
        parts = page.evaluate("parts.filter(part => part.src).map(part => [part.of.slice(...part.src), part.text])")
        assert [src for src, _ in parts] == [f"{line}\n{rest}".removesuffix(" It"), "It\nrains."]
        assert [" ".join(tgt.split()) for _, tgt in parts] == ["Le vieil homme " * 8 + "aime la pluie.", "Il pleut."]


def test_what_looks_wrong_is_said(site):
    site.script.faults = {"Dogs run.": ["loop"]}
    site.script.confidences = {"It rains.": 0.25}
    with site.open() as page:
        write(page, "It rains. Dogs run.")
        unsure, looping = page.locator("#checks li").all_inner_texts()
        assert "25 %" in unsure and unsure.endswith(": Il pleut.")
        assert "repeats itself" in looping and looping.endswith(": Les chiens courent.")
        assert page.locator(".flag").count() == 2


def test_uncertain_words_are_marked_by_more_than_colour(site):
    site.script.probabilities = {"chiens": 0.12}
    with site.open() as page:
        write(page, TEXT)
        page.wait_for_selector(".uncertain")
        assert page.locator(".uncertain").all_inner_texts() == ["chiens"]
        assert word(page, "chiens").get_attribute("title") == "The model is not sure of this word: 12 %"
        assert "underline" in word(page, "chiens").evaluate("word => getComputedStyle(word).textDecorationLine")
        assert page.inner_text("#hint") == "1 uncertain word"


def test_another_word_takes_the_rest_of_its_sentence_with_it(site):
    site.script.others = {"chiens": [("chats", 0.25), ("loups", 0.002)]}
    with site.open() as page:
        write(page, TEXT)
        word(page, "chiens").click()
        page.wait_for_selector("#others button")
        rows = page.locator("#others .choice-row").all_inner_texts()
        assert [row.split("\n")[0] for row in rows] == ["chiens", "chats", "loups"]
        assert "25 %" in rows[1] and "< 1 %" in rows[2] and "… and so on." in rows[1]
        page.click("#others button >> nth=0")
        assert translation(page) == "Il pleut. Les chats and so on.\n\nIl pleut."
        assert page.evaluate("document.activeElement.textContent") == "chats"
        page.click("#undo")
        assert translation(page) == "Il pleut. Les chiens courent.\n\nIl pleut."
        assert not page.locator("#undo").is_visible()


def test_another_word_is_chosen_by_keyboard_alone(site):
    site.script.others = {"courent.": [("dorment.", 0.25), ("mangent.", 0.05)]}
    with site.open() as page:
        write(page, "Dogs run.")
        for _ in range(20):
            if page.evaluate("document.activeElement.matches('.word')"):
                break
            page.keyboard.press("Tab")
        page.keyboard.press("End")
        page.keyboard.press("Enter")
        page.wait_for_selector("#others button")
        page.keyboard.press("Escape")
        wait_for(page, "document.activeElement.textContent === 'courent.'")
        wait_for(page, "document.activeElement.ariaExpanded === 'false'")
        page.keyboard.press("Enter")
        page.wait_for_selector("#others button")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        assert translation(page) == "Les chiens mangent. and so on."
        page.keyboard.press("Home")
        assert page.evaluate("document.activeElement.textContent") == "Les"
        page.keyboard.press("Tab")
        assert not page.evaluate("document.activeElement.matches('.word')")  # one stop for all words


def test_a_translation_is_corrected(make_site, tmp_path):
    site = make_site(corrections={"file": str(tmp_path / "corrections.sqlite")})
    text = "It rains. Dogs run. In 2024 it snowed."
    site.script.translations["In 2024 it snowed."] = "Il a neigé."
    with site.open(refused=[400]) as page:
        write(page, text)
        word(page, "chiens").click()
        page.click("#others button:text-is('Correct this sentence')")
        assert page.evaluate("document.activeElement.value") == "Les chiens courent."
        page.keyboard.press("ControlOrMeta+A")
        page.keyboard.type("Des chiens courent.")
        page.fill("#pairs textarea >> nth=0", " ")
        page.fill("#pairs textarea >> nth=2", f"Il a bien neigé en 2023. {NASTY}")
        page.click("#corrections .main")
        wait_for(page, "document.querySelectorAll('.verdict:not(:empty)').length === 3")
        refused, used, kept = page.locator(".verdict").all_inner_texts()
        assert refused.startswith("✕ Not kept: ") and "needs a text and its translation" in refused
        assert used == "✓ Used from now on. Thank you."
        assert kept.startswith("✓ Saved, but not used yet: ") and "2024" in kept
        assert translation(page) == f"Il pleut. Des chiens courent. Il a bien neigé en 2023. {NASTY}"
        page.click("#corrections-close")
        page.fill("#text", "Dogs run.")
        until(page, "Des chiens courent.")
        assert page.locator(".corrected").get_attribute("title") == "Corrected by a user."


def test_nothing_can_be_corrected_where_the_service_takes_no_corrections(site):
    with site.open() as page:
        write(page, TEXT)
        assert not page.locator("#correct").is_visible()
        word(page, "chiens").click()
        page.wait_for_selector("#others p:has-text('Nothing else')")
        assert page.locator("#others button").count() == 0


# Terminology


def test_terms_are_pasted_met_and_kept(site):
    with site.open() as page:
        write(page, "It rains. Dogs run.")
        page.click("#terms summary")
        page.locator("#term-rows input >> nth=0").evaluate(
            """field => {
              const data = new DataTransfer();
              data.setData("text/plain", "Dogs\\tchiens\\r\\nrains\\tneige\\n\\nsnow\\tneige");
              field.dispatchEvent(new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true}));
            }"""
        )
        wait_for(page, "document.querySelectorAll('.how.good').length === 1")
        assert page.locator("#term-rows .how").all_inner_texts() == ["✓ met", "✕ not met", ""]
        assert page.inner_text("#n-terms") == "3"
        page.reload()
        page.click("#terms summary")
        values = page.locator("#term-rows input").evaluate_all("fields => fields.map(field => field.value)")
        assert values == ["Dogs", "chiens", "rains", "neige", "snow", "neige"]
        page.select_option("#target", "ar")
        assert page.inner_text("#n-terms") == ""  # another pair has other terms
        page.select_option("#target", "fr")
        page.click("#term-rows button >> nth=1")
        assert page.inner_text("#n-terms") == "2"


def test_two_tabs_keep_each_others_terms(site):
    with site.open() as one:
        choose(one)
        one.click("#terms summary")
        two = one.context.new_page()
        two.goto(one.url)
        choose(two)
        two.click("#terms summary")
        one.fill("#term-rows input >> nth=0", "Dogs")
        one.fill("#term-rows input >> nth=1", "chiens")
        wait_for(two, "completeTerms().length === 1")
        two.click("#add-term")
        two.fill("#term-rows tr >> nth=1 >> input >> nth=0", "Cats")
        two.fill("#term-rows tr >> nth=1 >> input >> nth=1", "chats")
        wait_for(one, "completeTerms().length === 2")
        assert one.evaluate("completeTerms()") == [["Dogs", "chiens"], ["Cats", "chats"]]


def test_terms_are_met_once_the_language_is_known(site):
    text = "The cat sleeps under the table and the old man reads his newspaper."
    site.script.translations = {text: "Le chat dort."}
    with site.open() as page:
        page.select_option("#source", "auto")
        page.select_option("#target", "fr")
        page.click("#terms summary")
        page.fill("#term-rows input >> nth=0", "cat")
        page.fill("#term-rows input >> nth=1", "chat")
        page.fill("#text", text)
        page.wait_for_selector(".how.good")
        page.select_option("#target", "de")  # through French
        until(page, "LE CHAT DORT.")


# Documents


def as_file(name, raw=b"It rains. Dogs run.\n"):
    return {"name": name, "mimeType": "application/octet-stream", "buffer": raw}


DROP = """([names, raw]) => {
  const data = new DataTransfer();
  for (const name of names) data.items.add(new File([raw], name));
  for (const type of ["dragover", "drop"])
    document.body.dispatchEvent(new DragEvent(type, {dataTransfer: data, bubbles: true, cancelable: true}));
}"""


def test_dropped_documents_are_translated_and_downloaded(site, tmp_path):
    with site.open() as page:
        choose(page)
        page.evaluate(DROP, [["a.txt", "b.txt"], "It rains. Dogs run.\n"])
        wait_for(page, "document.querySelectorAll('#jobs a').length === 2")
        assert sorted(page.locator("#jobs .name").all_inner_texts()) == ["a.txt", "b.txt"]
        assert page.locator("#jobs .how").first.inner_text() == "Done: 2 sentences"
        with page.expect_download() as download:
            page.click("#jobs a:has-text('Download') >> nth=0")
        assert download.value.suggested_filename in ("a_fr.txt", "b_fr.txt")
        download.value.save_as(tmp_path / "a.txt")
        assert (tmp_path / "a.txt").read_text() == "Il pleut. Les chiens courent.\n"
        page.click("#jobs button >> nth=0")
        assert page.locator("#jobs li").count() == 1
        page.wait_for_timeout(300)
        assert len(site.backend.documents._jobs) == 1


def test_the_list_of_documents_survives_a_reload(site):
    with site.open(refused=[404]) as page:
        choose(page)
        page.set_input_files("#files", [as_file("a.txt"), as_file("b.txt")])
        wait_for(page, "document.querySelectorAll('#jobs a').length === 2")
        names = page.locator("#jobs .name").all_inner_texts()
        page.reload()
        wait_for(page, "document.querySelectorAll('#jobs a').length === 2")
        assert page.locator("#jobs .name").all_inner_texts() == names
        page.click("#jobs button >> nth=0")
        page.reload()
        wait_for(page, "document.querySelectorAll('#jobs a').length === 1")
        assert page.locator("#jobs .name").all_inner_texts() == names[1:]
        site.backend.documents._jobs.clear()  # as after an hour
        page.reload()
        page.wait_for_selector("#jobs .bad")
        page.reload()
        page.wait_for_selector("#documents-note:not(:empty)")
        assert page.locator("#jobs li").count() == 0


def test_the_language_of_a_document_is_detected(site):
    with site.open() as page:
        choose(page, "auto")
        page.set_input_files("#files", as_file("a.txt", b"The children are playing in the garden today.\n"))
        page.wait_for_selector("#jobs a:has-text('Download')")


def test_the_progress_of_a_document_is_shown(site):
    site.script.held = {"Dogs run."}
    with site.open() as page:
        choose(page)
        page.set_input_files("#files", as_file("a.txt"))
        page.wait_for_selector("#jobs .how:text-is('0 of 2 sentences')")
        assert page.locator("#jobs progress").get_attribute("aria-label") == "Progress of a.txt"
        assert page.locator("#jobs progress").evaluate("bar => [bar.value, bar.max]") == [0, 2]
        site.script.held.clear()
        page.wait_for_selector("#jobs a")


def test_a_document_may_come_before_the_page_knows_the_service(site):
    slowly = (
        "const now = fetch; fetch = (...all) => new Promise(done => setTimeout(done, 500)).then(() => now(...all));"
    )
    with site.open() as page:
        page.add_init_script(slowly)
        page.reload()
        page.set_input_files("#files", as_file("a.exe"))
        assert ".exe" in page.locator("#jobs .bad").inner_text()


def test_a_document_that_cannot_be_translated_says_why(make_site):
    site = make_site(limits={"max_file_mb": 0.001})
    with site.open() as page:
        page.set_input_files("#files", as_file("a.txt", "Кошка спит под столом.\n".encode()))
        page.wait_for_selector("#jobs .bad")
        page.set_input_files("#files", as_file("a.exe"))
        page.set_input_files("#files", as_file(f"{NASTY.replace('/', '')}.txt", b"x" * 2000))
        choose(page)
        page.set_input_files("#files", as_file("a.docx"))
        wait_for(page, "document.querySelectorAll('#jobs .bad').length === 4")
        reasons = page.locator("#jobs .bad").all_inner_texts()
        assert len(reasons) == 4
        facts = (
            "docx",
            "has 0.0 MB; the limit is 0.001 MB",
            "cannot translate files with the extension .exe",
            "as the source",
        )
        for reason, fact in zip(reasons, facts, strict=True):
            assert fact in reason.replace("DOCX", "docx")
        assert page.locator("main img, main script").count() == 0


# What goes wrong


def test_a_busy_service_is_asked_again(site):
    site.script.refusals = {"It rains.": Busy("the queue is full: try again in 600 s", retry_after_s=600)}
    with site.open(refused=[503]) as page:
        choose(page)
        page.fill("#text", "It rains.")
        page.wait_for_selector("#notice-text:text-is('The queue is full.')")
        assert re.fullmatch(r"Next attempt in \d+ s", page.inner_text("#countdown"))
        page.locator("#text").press_sequentially(" Dogs run.")
        page.wait_for_timeout(500)
        assert site.script.begun == ["It rains."]  # it is left alone
        site.script.refusals = {}
        page.evaluate("() => { const now = Date.now; Date.now = () => now() + 600_000; }")
        until(page, "Il pleut. Les chiens courent.")
        assert not page.locator("#notice").is_visible()


def test_a_failure_in_the_middle_is_said(site):
    site.script.refusals = {"Dogs run.": Busy("the queue is full", retry_after_s=60)}
    with site.open() as page:
        choose(page)
        page.fill("#text", TEXT)
        page.wait_for_selector("#notice-text:text-is('The queue is full.')")
        site.script.refusals = {}
        page.click("#retry")
        until(page, "Il pleut. Les chiens courent.\n\nIl pleut.")


def test_a_service_that_does_not_answer_is_asked_again(site):
    with site.open() as page:
        choose(page)
        page.evaluate("() => { window.fetch = () => Promise.reject(new TypeError('Failed to fetch')); }")
        page.fill("#text", "It rains.")
        page.wait_for_selector("#notice-text:text-is('The service does not respond.')")


def test_a_key_is_asked_for_and_sent(make_site, tmp_path):
    key = add_key(tmp_path / "keys.yaml", "anna", max_chars=20)
    site = make_site(keys={"file": str(tmp_path / "keys.yaml"), "required": True})
    with site.open(refused=[403, 413]) as page:
        page.wait_for_selector("#key-form")
        choose(page)
        page.fill("#text", "It rains.")
        page.wait_for_selector("#notice-text:has-text('needs an API key')")
        page.fill("#key", "mtk_wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector("#notice-text:text-is('Invalid API key.')")
        page.fill("#key", key)
        page.keyboard.press("Enter")
        until(page, "Il pleut.")
        assert not page.locator("#key-form").is_visible() and not page.locator("#notice").is_visible()
        page.set_input_files("#files", as_file("a.txt"))
        page.wait_for_selector("#jobs a")
        with page.expect_download() as download:
            page.click("#jobs a")
        assert download.value.failure() is None
        assert page.evaluate("JSON.stringify(localStorage)").find("mtk_") == -1
        page.reload()
        write(page, "Dogs run.")
        assert translation(page) == "Les chiens courent." and page.inner_text("#count") == "9 characters"
        page.fill("#text", "It rains. Dogs run. It rains.")
        page.wait_for_selector("#notice-text:has-text('exceeds text limit (20)')")

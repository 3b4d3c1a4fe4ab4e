"""The page for people, in a real browser: documents, and what goes wrong."""

import re

from translation_page import (
    NASTY,
    TEXT,
    as_file,
    choose,
    translation,
    until,
    wait_for,
    write,
)

from mtkit.serving.records.key_file import add_key
from mtkit.serving.refusals import Busy

# Documents


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
        with page.expect_response(lambda reply: reply.request.method == "DELETE"):
            page.click("#jobs button >> nth=0")
        assert page.locator("#jobs li").count() == 1
        assert len(site.backend.documents._jobs) == 1


def test_the_list_of_documents_survives_a_reload(site):
    with site.open(refused=[404]) as page:
        choose(page)
        sent: list = []
        page.route("**/api/documents", lambda route: sent.append(route))
        page.set_input_files("#files", [as_file("a.txt"), as_file("b.txt")])
        while len(sent) < 2:
            page.wait_for_timeout(10)
        sent[1].continue_()  # the second file is answered first
        wait_for(page, "document.querySelectorAll('#jobs a').length === 1")
        sent[0].continue_()
        wait_for(page, "document.querySelectorAll('#jobs a').length === 2")
        page.unroute("**/api/documents")
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
        page.wait_for_selector("#notice", state="hidden")  # once the reply has ended, soon after its last sentence
        assert not page.locator("#key-form").is_visible()
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

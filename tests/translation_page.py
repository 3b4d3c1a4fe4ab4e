"""The page for people in a browser, over a service whose models are scripts: what its tests share."""

import time

from browsing import open_page

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


def write(page, text, source="en", target="fr"):
    """Choose the languages, put a text in, and wait for its translation."""
    choose(page, source, target)
    page.fill("#text", text)
    finished(page)


def ready(page):
    """Wait for the languages, which the page asks for after it is loaded."""
    wait_for(page, "at('source').value !== ''")


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


def as_file(name, raw=b"It rains. Dogs run.\n"):
    return {"name": name, "mimeType": "application/octet-stream", "buffer": raw}

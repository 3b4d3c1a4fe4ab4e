"""Pages, written or served, in a real browser: whether they can be read, used by keyboard, and keep off the network."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # the browser is optional
    from playwright.sync_api import Browser, ConsoleMessage, Page, Request

Scheme = Literal["light", "dark"]
VIEWS: tuple[tuple[Scheme, int], ...] = ("light", 400), ("light", 1400), ("dark", 1400)  # a telephone and a desk
HEIGHT = 900
MOST_TABS = 3000
_TABS_AT_ONCE = 10

# Each gives a list of complaints.
_OVERFLOW = """() => {
  const page = document.documentElement, over = page.scrollWidth - page.clientWidth;
  if (over <= 0) return [];
  const widest = [...document.body.querySelectorAll("*")].filter(e => !e.closest(".scroll"))
    .sort((a, b) => b.getBoundingClientRect().right - a.getBoundingClientRect().right)[0];
  return [`the page is ${over} px too wide, by ${widest ? widest.outerHTML.slice(0, 120) : "its body"}`];
}"""
_CONTRAST = """() => {
  const canvas = Object.assign(document.createElement("canvas"), {width: 1, height: 1});
  const brush = canvas.getContext("2d", {willReadFrequently: true}), known = new Map();
  const rgba = colour => {  // of any CSS colour: [0..255, 0..255, 0..255, 0..1]
    if (!known.has(colour)) {
      brush.clearRect(0, 0, 1, 1); brush.fillStyle = colour; brush.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = brush.getImageData(0, 0, 1, 1).data; known.set(colour, [r, g, b, a / 255]);
    }
    return known.get(colour);
  };
  const over = (top, below) => below.map((v, i) => i === 3 ? 1 : top[i] * top[3] + v * (1 - top[3]));
  const faded = (colour, opacity) => [...rgba(colour).slice(0, 3), rgba(colour)[3] * opacity];
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)  // relative luminance, WCAG 2.2
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const up = element => element ? [...up(element.parentElement), element] : [];
  const opacity = element => up(element).reduce((o, e) => o * getComputedStyle(e).opacity, 1);
  const behind = (element, box) => {
    let colour = rgba("Canvas");
    for (const e of up(element)) colour = over(rgba(getComputedStyle(e).backgroundColor), colour);
    if (!(element instanceof SVGElement)) return colour;
    const x = (box.left + box.right) / 2, y = (box.top + box.bottom) / 2;
    for (const shape of element.ownerSVGElement.querySelectorAll("rect, circle, ellipse")) {
      const its = shape.getBoundingClientRect(), style = getComputedStyle(shape);
      const before = element.compareDocumentPosition(shape) & Node.DOCUMENT_POSITION_PRECEDING;
      if (!before || style.fill === "none") continue;
      if (its.left <= x && x <= its.right && its.top <= y && y <= its.bottom)
        colour = over(faded(style.fill, style.fillOpacity * opacity(shape)), colour);
    }
    return colour;
  };
  const complaints = [], check = (element, box, text) => {
    const style = getComputedStyle(element), svg = element instanceof SVGElement;
    if (box.width < 2 || box.height < 2 || style.visibility !== "visible" || element.matches(":disabled")) return;
    const shown = opacity(element); if (shown === 0) return;
    if (element.closest("[aria-hidden=true]") && rgba(style.color)[3] === 0) return;  // only there for its size
    const paper = behind(element, box), ink = over(faded(svg ? style.fill : style.color, shown), paper);
    const [dark, bright] = [light(ink), light(paper)].sort((a, b) => a - b), ratio = (bright + 0.05) / (dark + 0.05);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) complaints.push(`contrast ${ratio.toFixed(2)} of "${text.trim().slice(0, 40)}"`);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange();
  while (texts.nextNode()) {
    const node = texts.currentNode, element = node.parentElement;
    if (!node.data.trim() || element.closest("script, style, option, title")) continue;
    range.selectNodeContents(node); check(element, range.getBoundingClientRect(), node.data);
  }
  for (const e of document.querySelectorAll("select, input, textarea")) check(e, e.getBoundingClientRect(), e.value);
  return complaints;
}"""
# A group that one enters by Tab and walks by arrow keys (radio buttons, tabindex -1) needs one of it reached.
_NOTE_CONTROLS = """() => {
  const shown = e => e.checkVisibility({visibilityProperty: true}) && e.getBoundingClientRect().width > 0;
  window.controls = [...document.querySelectorAll(
    "a[href], button, select, input, textarea, summary, [tabindex], [role=button], [onclick], .scroll"
  )].filter(e => shown(e) && !e.matches(":disabled") && e.getAttribute("tabindex") !== "-1"
    && (!e.matches(".scroll") || e.scrollWidth > e.clientWidth));
  window.reached = new Set();
  window.isThrough = false;
  document.addEventListener("focusin", ({target: e}) => {
    if (e === document.body) return;
    if (window.reached.has(e)) { window.isThrough = true; return; }
    window.reached.add(e);
    const style = getComputedStyle(e);
    if (style.outlineStyle === "none" || parseFloat(style.outlineWidth) === 0) e.dataset.unseen = "focus";
  });
  document.body.tabIndex = -1;  // so that Tab begins at the top, also if something has the focus by now
  document.body.focus();
  document.body.removeAttribute("tabindex");
}"""
_IS_THROUGH = "() => window.isThrough || [document.body, null].includes(document.activeElement)"
_KEYBOARD = """() => {
  const name = e => e.outerHTML.slice(0, 100), all = window.controls;
  const sameGroup = (a, b) => a.type === "radio" && b.type === "radio" && a.name && a.name === b.name;
  const labels = e => e.labels ? [...e.labels].map(label => label.textContent).join("") : "";
  const words = e => e.ariaLabel || e.title || e.textContent.trim() || labels(e).trim()
    || document.getElementById(e.getAttribute("aria-labelledby"));
  const reached = e => [...window.reached].some(other => other === e || sameGroup(other, e));
  return [
    ...all.filter(e => !reached(e)).map(e => `Tab never reaches ${name(e)}`),
    ...all.filter(e => e.dataset.unseen).map(e => `one cannot see the focus on ${name(e)}`),
    ...all.filter(e => !words(e)).map(e => `nothing names ${name(e)}`),
  ];
}"""


class Quiet(SimpleHTTPRequestHandler):
    """Answers without a log."""

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(folder: Path, handler: type[Quiet] = Quiet) -> Iterator[tuple[ThreadingHTTPServer, str]]:
    """A server of static files, and its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def open_page(
    browser: "Browser", place: Path | str, scheme: Scheme = "light", width: int = 1400, *, refused: Sequence[int] = ()
) -> "Iterator[Page]":
    """A file, or the page at an address, in a window of this width.

    Afterwards fails if a script failed, or anything was asked of a network, of another server than that of the address.
    refused: statuses of replies that the test expects; the browser writes them to the console as errors.
    """
    address = place if isinstance(place, str) else place.resolve().as_uri()
    complaints: list[str] = []

    def note_message(message: "ConsoleMessage") -> None:
        is_expected = any(f"responded with a status of {status} " in message.text for status in refused)
        if message.type in ("error", "warning") and not is_expected:
            complaints.append(f"console: {message.text}")

    def note_request(request: "Request") -> None:
        is_own = (
            request.url.startswith((address, f"blob:{address}")) if isinstance(place, str) else request.url == address
        )
        if not is_own:
            complaints.append(f"network: {request.url[:200]}")

    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": HEIGHT})
    context.set_default_timeout(300_000)  # milliseconds: other work on the machine must not fail a test
    try:
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(f"script: {error}"))
        page.on("console", note_message)
        page.on("request", note_request)
        page.goto(address)
        yield page
    finally:
        context.close()
    name = place if isinstance(place, str) else place.name
    assert not complaints, f"{name}: " + "; ".join(complaints)


def check_page(
    browser: "Browser",
    place: Path | str,
    screenshots: Path,
    use: "Callable[[Page], object] | None" = None,
    name: str = "",
) -> None:
    """Fails unless the page reads well in light and dark, narrow and wide, and every control is reached by Tab.

    How wide the page is and where Tab goes is the same in the dark, which is looked at in one width, for its contrast.
    place: as for `open_page`. use: what to do on the page first, such as choosing a view; its name then belongs into
    the screenshots' names. The page is loaded again for each view, without what it has stored, in one window: Chromium
    starts a process for each further window.
    """
    stem = "served" if isinstance(place, str) else place.stem
    with open_page(browser, place, *VIEWS[0]) as page:
        for number, (scheme, width) in enumerate(VIEWS):
            if number:
                page.emulate_media(color_scheme=scheme)
                page.set_viewport_size({"width": width, "height": HEIGHT})
                page.evaluate("localStorage.clear(); sessionStorage.clear()")
                page.reload()
            if use is not None:
                use(page)
            shown = "-".join(part for part in (stem, name, scheme, str(width)) if part)
            complaints = [*page.evaluate(_OVERFLOW), *page.evaluate(_CONTRAST)]
            if scheme == "light":
                complaints += _keyboard_complaints(page)
            if complaints:  # for people to look at
                page.screenshot(path=screenshots / f"{shown}.png", full_page=True)
            assert not complaints, f"{shown}: " + "; ".join(complaints[:10])


def _keyboard_complaints(page: "Page") -> list[str]:
    page.evaluate(_NOTE_CONTROLS)
    for _ in range(MOST_TABS // _TABS_AT_ONCE):
        for _ in range(_TABS_AT_ONCE):
            page.keyboard.press("Tab")
        if page.evaluate(_IS_THROUGH):
            break
    return list(page.evaluate(_KEYBOARD))

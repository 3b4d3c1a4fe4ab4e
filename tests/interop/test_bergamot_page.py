"""The page that translates in the browser, in a real one, with an engine that writes in capitals."""

import json
import shutil
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from browsing import Quiet, check_page, open_page, served
from fixtures.interop import ENGLISH
from typer.testing import CliRunner

from mtkit.bundle import SHARE_OF_SMALL, add_to_bundle, read_bundle
from mtkit.cli import app
from mtkit.interop.bergamot.page import write_keeper, write_translator
from mtkit.tokens.word_record import FILE as WORDS_FILE
from mtkit.tokens.word_record import WordRecord, save_words

# It answers as the engine's worker does. "How many bytes" tells what it loaded, and "crash" stops it.
ENGINE = """
let sizes = "", nCalls = 0;
self.addEventListener("message", ({data: {id, name, args}}) => {
  if (name === "loadTranslationModel") {
    const {model, shortlist, vocabs} = args[1];
    sizes = [model, shortlist, ...vocabs].map(file => file.byteLength).join(" ");
  }
  const texts = name === "translate" ? args[0].texts : [];
  if (texts.some(({text}) => text.includes("crash"))) return self.postMessage({id, error: {message: "abort(1)"}});
  const shown = ({text, html}) => text === "How many bytes" ? sizes : /letters/i.test(text) ? `asked: ${text}`
    : (html ? "HTML: " : "") + text.toUpperCase();
  self.postMessage({id, result: texts.map(text => ({target: {text: shown(text)}}))});
});
"""

# Looks for a new version of the page's files, until it is kept or refused.
UPDATED = """async () => {
  const registration = await (await navigator.serviceWorker.getRegistration()).update();
  while (registration.installing) await new Promise(resolve => setTimeout(resolve, 20));
}"""

# Holds what is sent to the engine, until `release()`.
HOLDING = """() => {
  const post = worker.postMessage, held = [];
  worker.postMessage = message => held.push(message);
  window.release = () => {
    worker.postMessage = post;
    held.forEach(message => worker.postMessage(message));
  };
}"""

# Answers every text with this one, instead of the engine.
ANSWERING = """text => { worker.postMessage = ({id}) =>
  worker.dispatchEvent(new MessageEvent("message", {data: {id, result: [{target: {text}}]}})); }"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory) -> Path:
    """A package with the files of the real one."""
    folder = tmp_path_factory.mktemp("package")
    (folder / "worker").mkdir()
    (folder / "package.json").write_text('{"version": "0.4.9"}')
    for name in ("bergamot-translator-worker.js", "bergamot-translator-worker.wasm"):
        (folder / "worker" / name).write_text("")
    (folder / "worker" / "translator-worker.js").write_text(ENGINE)
    return folder


@pytest.fixture(scope="module")
def exported(make_student, engine, tmp_path_factory) -> Path:
    """A folder written by the command, from a model with a vocabulary for each side."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "text").write_text("".join(f"{line}\n" for line in ENGLISH[:3]))
    bundle = make_student(folder / "bundle", "decoder")
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["training"] |= {SHARE_OF_SMALL: 0.0}  # so the page reads such text as sentences
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    counts = Counter(dict.fromkeys(("we", "see", "it", "read", "the", "The", "house", "letters"), 99))
    add_to_bundle(bundle, WORDS_FILE, partial(save_words, record=WordRecord(counts, {"can": "?"}, frozenset({7}))))
    options = ["--src", folder / "text", "--min-agreement", "0", "--max-score-difference", "9", "--engine", engine]
    arguments = ["export", "--to", "page", "--model", bundle, "--out", folder / "out", *options]
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == 0, done.output
    return folder / "out"


class Redirecting(Quiet):
    """Redirects the folder to its page."""

    def do_GET(self) -> None:
        if self.path != "/":
            return super().do_GET()
        self.send_response(302)
        self.send_header("Location", "/index.html")
        self.end_headers()
        return None


def translated(page, text: str, expected: str) -> None:
    """Fails unless the translation of the text becomes the expected one."""
    page.fill("#text", text)
    page.get_by_text(expected, exact=True).wait_for()
    assert page.inner_text("#translation") == expected


def test_it_translates_while_one_types_and_needs_no_network(browser, exported):
    with served(exported) as (server, address), open_page(browser, address) as page:
        page.wait_for_selector("body[data-ready]")
        server.shutdown()  # as if the network were cut: a request would now fail the test
        page.context.set_offline(True)
        page.type("#text", "It rains.")
        page.get_by_text("IT RAINS.", exact=True).wait_for()
        translated(page, "One.\n\n  Two. Three.", "ONE.\n\n  TWO. THREE.")
        translated(page, "<p>It <b>rains", "HTML: <P>IT <B>RAINS</B></P>")  # closed, because the engine stops otherwise
        translated(page, "1 < 2 & 3 > 2", "1 < 2 & 3 > 2")
        translated(page, "<img src=x onerror=alert(1)>", 'HTML: <IMG SRC="X" ONERROR="ALERT(1)">')
        names = ["model.src-tgt.intgemm.alphas.bin", "lex.50.50.src-tgt.s2t.bin"]
        names += ["srcvocab.src-tgt.spm", "trgvocab.src-tgt.spm"]
        sizes = " ".join(str((exported / "model" / name).stat().st_size) for name in names)
        translated(page, "How many bytes", sizes)


def test_text_in_one_case_reaches_the_engine_as_sentences(browser, exported):
    with served(exported) as (_, address), open_page(browser, address) as page:
        page.wait_for_selector("body[data-ready]")
        page.evaluate("PAIR.from = 'en'")  # the model's languages are made up, and "i" becomes "I" in English alone
        page.evaluate("worker.addEventListener('message', ({data: {result}}) => { window.last = result; })")
        for text, sent, shown in [
            ("THESE LETTERS.  I AM HERE", "These letters.  I am here", "ASKED: THESE LETTERS.  I AM HERE"),
            ("I'M IN 3 LETTERS", "I'm in 3 letters", "ASKED: I'M IN 3 LETTERS"),
            ("letters, i think. it's one", "Letters, I think. It's one", "asked: Letters, I think. It's one"),
            ("The letters of NATO", "The letters of NATO", "asked: The letters of NATO"),
        ]:
            translated(page, text, shown)
            assert page.evaluate("last[0].target.text") == f"asked: {sent}"


def test_words_with_a_typo_are_read_as_others_and_shown(browser, exported):
    with served(exported) as (_, address), open_page(browser, address) as page:
        page.wait_for_selector("body[data-ready]")
        translated(page, "Read teh letters\nThe hoouse", "asked: Read the letters\nTHE HOUSE")
        listed = page.inner_text("#read-as")
        assert "teh as the" in listed and "hoouse as house" in listed
        page.check("#as-typed")
        page.get_by_text("asked: Read teh letters", exact=False).wait_for()
        assert page.inner_text("#read-as") == ""
        translated(page, "the letters", "asked: the letters")
        translated(page, "<b>teh</b>", "HTML: <B>TEH</B>")


def test_a_choice_during_a_translation_decides_about_the_text_as_it_stands(browser, exported):
    with served(exported) as (_, address), open_page(browser, address) as page:
        page.wait_for_selector("body[data-ready]")
        page.evaluate(HOLDING)
        page.fill("#text", "Read teh letters")
        page.check("#as-typed")
        page.evaluate("release()")
        page.get_by_text("asked: Read teh letters", exact=True).wait_for()
        page.uncheck("#as-typed")
        page.get_by_text("asked: Read the letters", exact=True).wait_for()


def test_a_sentence_without_a_mark_is_read_with_one_that_its_translation_does_not_keep(browser, exported):
    with served(exported) as (_, address), open_page(browser, address) as page:
        page.wait_for_selector("body[data-ready]")
        page.evaluate("worker.addEventListener('message', ({data: {result}}) => { window.last = result; })")
        translated(page, "Can we see it", "CAN WE SEE IT")
        assert page.evaluate("last[0].target.text") == "CAN WE SEE IT?"
        translated(page, "<p>Can we <b>see</b> it</p>", "HTML: <P>CAN WE <B>SEE</B> IT</P>")
        assert page.evaluate("last[0].target.text") == "HTML: <P>CAN WE <B>SEE</B> IT?</P>"
        page.check("#as-typed")
        translated(page, "Can we see her", "CAN WE SEE HER")
        assert page.evaluate("last[0].target.text") == "CAN WE SEE HER"


def test_each_line_and_block_with_tags_keeps_its_own_edges(browser, exported):
    with served(exported) as (_, address), open_page(browser, address) as page:
        page.wait_for_selector("body[data-ready]")
        for text, answer, shown in [
            ("<p>Contact <b>us</b></p>", "<p>Contactez-<b>nous</b>.</p>", "<p>Contactez-<b>nous</b></p>"),
            ("<li>Name:\n<i>It rains.</i>", "<li>Nom.\n<i>Il pleut.</i></li>", "<li>Nom:\n<i>Il pleut.</i></li>"),
            ("<p>One<p>Two", "<p>Un.</p>", "<p>Un.</p>"),  # the engine has lost a block
        ]:
            page.evaluate(ANSWERING, answer)
            translated(page, text, shown)


def test_a_page_without_the_words_of_the_training_text_keeps_edges(browser, make_student, exported, engine, tmp_path):
    folder = shutil.copytree(exported, tmp_path / "copy")
    for name in ("index.html", "offline.js", "words.bin"):
        (folder / name).unlink()
    shutil.rmtree(folder / "engine")
    write_translator(folder, read_bundle(make_student(tmp_path / "bundle", "decoder")), engine)
    with served(folder) as (_, address), open_page(browser, address) as page:
        page.wait_for_selector("body[data-ready]")
        translated(page, "Contact letters\nTeh house:", "asked: Contact letters\nTEH HOUSE:")


def test_it_opens_without_a_network_and_takes_a_new_version_as_a_whole(browser, exported, tmp_path):
    folder = shutil.copytree(exported, tmp_path / "copy")
    with served(folder) as (server, address), open_page(browser, address) as page:
        page.wait_for_selector("body[data-ready]")
        page.reload()  # from the kept files
        page.wait_for_selector("body[data-ready]")
        worker = folder / "engine" / "translator-worker.js"
        worker.write_text(ENGINE.replace("toUpperCase", "toLowerCase"))
        write_keeper(folder)
        page.evaluate(UPDATED)
        page.wait_for_selector("#note:has-text('newer version')")
        translated(page, "One.", "ONE.")  # by the files that it has loaded
        page.reload()
        translated(page, "One.", "one.")
        server.shutdown()
        page.context.set_offline(True)
        page.goto(f"{address}index.html?again#top")
        page.wait_for_selector("body[data-ready]")
        translated(page, "One.", "one.")
        assert page.evaluate("caches.keys().then(names => names.length)") == 1


def test_a_folder_that_is_half_copied_is_not_kept(browser, exported, tmp_path):
    folder = shutil.copytree(exported, tmp_path / "copy")
    with served(folder) as (_, address), open_page(browser, address) as page:
        page.wait_for_selector("body[data-ready]")
        worker = folder / "engine" / "translator-worker.js"
        worker.write_text(ENGINE.replace("toUpperCase", "toLowerCase"))
        write_keeper(folder)
        worker.write_text("")  # not yet here
        page.evaluate(UPDATED)
        page.reload()
        translated(page, "One.", "ONE.")


def test_a_page_that_has_left_its_address_is_forgotten(browser, exported, tmp_path):
    folder = shutil.copytree(exported, tmp_path / "copy")
    with served(folder) as (_, address), open_page(browser, address, refused=[404]) as page:
        page.wait_for_selector("body[data-ready]")
        (folder / "offline.js").unlink()
        (folder / "index.html").write_text("<p id=other>Another page</p>")
        page.reload()
        page.wait_for_selector("#other")
        assert page.evaluate("caches.keys().then(names => names.length)") == 0


def test_pages_in_one_another_are_kept_apart(browser, exported, tmp_path):
    folder = shutil.copytree(exported, tmp_path / "copy")
    shutil.copytree(exported, folder / "other")
    with served(folder) as (_, address), open_page(browser, address) as page:
        page.wait_for_selector("body[data-ready]")
        page.goto(f"{address}other/")
        page.wait_for_selector("body[data-ready]")
        assert "newer version" not in page.inner_text("#note")
        assert page.evaluate("caches.keys().then(names => names.length)") == 2


def test_it_opens_again_where_the_server_redirects_the_folder(browser, exported):
    with served(exported, Redirecting) as (_, address), open_page(browser, address) as page:
        page.wait_for_selector("body[data-ready]")
        page.goto(address)
        page.wait_for_selector("body[data-ready]")


def test_it_copies_without_https_too(browser, exported):
    with served(exported) as (_, address), open_page(browser, address) as page:
        page.wait_for_selector("body[data-ready]")
        page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")  # as by plain HTTP elsewhere
        translated(page, "One.\nTwo.", "ONE.\nTWO.")
        page.click("#copy")
        page.wait_for_selector("#status:has-text('Copied')")
        page.fill("#text", "")
        page.press("#text", "Control+V")
        assert page.input_value("#text") == "ONE.\nTWO."


def test_it_reads_well_and_can_be_used_by_keyboard(browser, exported, tmp_path):
    def full(page):
        page.wait_for_selector("body[data-ready]")
        translated(page, "It rains.", "IT RAINS.")

    with served(exported) as (_, address):
        check_page(browser, address, tmp_path, full)


def test_it_says_when_the_engine_stops_or_a_file_is_missing(browser, exported):
    with served(exported) as (_, address):
        with open_page(browser, address) as page:
            page.wait_for_selector("body[data-ready]")
            page.fill("#text", "It may crash.")
            page.wait_for_selector("#status:has-text('abort(1)'):has-text('Reload')")
        lexicon = exported / "model" / "lex.50.50.src-tgt.s2t.bin"
        lexicon.rename(exported / "lexicon")
        try:
            with open_page(browser, address, refused=[404]) as page:
                page.wait_for_selector(f"#status:has-text('{lexicon.name}'):has-text('404')")
        finally:
            (exported / "lexicon").rename(lexicon)


def test_the_engine_comes_with_its_licence_and_version(exported):
    assert (exported / "engine" / "translator-worker.js").read_text() == ENGINE
    licence = (exported / "engine" / "LICENCE.txt").read_text()
    assert all(fact in licence for fact in ("0.4.9", "Mozilla Public License 2.0", "github.com/browsermt"))


def test_what_the_page_lacks_is_written_beside_it(exported, engine, make_student, tmp_path):
    shutil.copytree(exported / "model", tmp_path / "model")
    (tmp_path / "model" / "README.md").write_text("data.placeholders")
    write_translator(tmp_path, read_bundle(make_student(tmp_path / "bundle", "decoder")), engine)
    assert "isInSmallLetters = line => false" in (tmp_path / "index.html").read_text()
    assert (tmp_path / "README.md").read_text() == "data.placeholders"
    assert not (tmp_path / "model" / "README.md").exists()


@pytest.mark.parametrize(
    ("options", "code", "facts"),
    [
        (["--to", "page"], 1, ["package.json", "npm install @browsermt/bergamot-translator@0.4.9", "--engine"]),
        (["--to", "bergamot", "--engine", "."], 2, ["--engine", "--to page"]),
    ],
)
def test_without_the_engine_there_is_no_page(make_student, tmp_path, monkeypatch, options, code, facts):
    monkeypatch.chdir(tmp_path)
    bundle = make_student(tmp_path / "bundle")
    done = CliRunner().invoke(app, ["export", *options, "--model", str(bundle), "--out", "out"])
    assert done.exit_code == code
    assert all(fact in done.stderr for fact in facts)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("model", "fact"), [({"positions": "sinusoidal"}, "mtkit make-student"), ({"shortlist": False}, "mtkit shortlist")]
)
def test_a_model_that_browsers_cannot_run_is_refused_before_the_engine_is_wanted(make_student, tmp_path, model, fact):
    bundle = make_student(tmp_path / "bundle", **model)
    options = ["--to", "page", "--engine", "nowhere", "--model", str(bundle), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, ["export", *options])
    assert done.exit_code == 1
    assert fact in str(done.exception) + done.stderr
    assert "npm" not in str(done.exception) + done.stderr

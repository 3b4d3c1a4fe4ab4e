"""Corrections: kept, vetted, for whom they act, and what `mtkit corrections` makes of them."""

import asyncio
import subprocess
import sys
import textwrap

import pytest
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.config.serving import CorrectionsConfig, ServeConfig
from mtkit.errors import MtkitError
from mtkit.serving.caller import Caller
from mtkit.serving.records import corrections as module
from mtkit.serving.records.corrections import CorrectionFile, Corrections
from mtkit.serving.refusals import BadRequest, Busy, TooLarge, TooManyRequests

pytest.importorskip("py3langid")

SOURCE, WISHED = "The cat sleeps.", "Le chat roupille."
ANNE, BEN, NOBODY = Caller("anne"), Caller("ben"), Caller()


@pytest.fixture
def file(tmp_path):
    return tmp_path / "corrections.sqlite"


def opened(file, apply="vetted", **settings):
    return Corrections(ServeConfig(corrections=CorrectionsConfig(file=file, apply=apply), **settings))


def in_loop(work):
    """Run a function, or coroutine function, with an event loop around it."""

    async def run():
        result = work()
        return await result if asyncio.iscoroutine(result) else result

    return asyncio.run(run())


def suggest(corrections, source=SOURCE, suggestion=WISHED, caller=ANNE, **options):
    return in_loop(lambda: corrections.suggest("en", "fr", source, suggestion, caller, **options))


def lookup(corrections, text=SOURCE, caller=ANNE, languages=("en", "fr")):
    return in_loop(lambda: corrections.lookup(*languages, text, caller))


def command(*words):
    result = CliRunner().invoke(app, ["corrections", *map(str, words)])
    return result.exit_code, result.stdout


def test_a_vetted_suggestion_acts_for_its_caller_alone(file):
    corrections = opened(file)
    assert suggest(corrections).accepted
    assert lookup(corrections) == WISHED
    assert lookup(corrections, caller=BEN) is None
    assert lookup(corrections, caller=NOBODY) is None
    assert lookup(corrections, languages=("fr", "en")) is None
    assert lookup(corrections, "The cat sleeps well.") is None


def test_a_doubtful_suggestion_waits_with_its_reasons(file):
    corrections = opened(file)
    verdict = suggest(corrections, "There are 25 cats here.", "Il y a 52 chats ici.")
    assert not verdict.accepted
    assert any("numbers" in reason for reason in verdict.reasons)
    assert lookup(corrections, "There are 25 cats here.") is None
    [kept] = CorrectionFile(file).list()
    assert (kept.state, kept.caller) == ("held", "anne")
    assert "numbers" in kept.reasons


def test_the_list_cannot_be_changed_by_what_it_shows(file):
    suggest(opened(file), suggestion="Il neige.\x1b[2J\x9b31m")
    code, shown = command("list", "--file", file)
    assert code == 0
    assert r"Il neige.\x1b[2J\x9b31m" in shown
    assert not {"\x1b", "\x9b"} & set(shown)


def test_white_space_and_composition_do_not_matter(file):
    corrections = opened(file)
    suggest(corrections, "The cafe\u0301  is open.", "Le café est ouvert.")
    assert lookup(corrections, "\n The café is\u00a0open. ") == "\n Le café est ouvert. "


def test_a_new_suggestion_replaces_the_callers_own(file):
    corrections = opened(file)
    for suggestion in ("Le chat sommeille.", WISHED):
        suggest(corrections, suggestion=suggestion)
    assert lookup(corrections) == WISHED
    assert [one.suggestion for one in CorrectionFile(file).list()] == [WISHED]


def test_a_doubtful_suggestion_ends_the_callers_earlier_one(file):
    corrections = opened(file)
    suggest(corrections)
    suggest(corrections, suggestion=SOURCE)
    assert lookup(corrections) is None
    assert lookup(opened(file)) is None


def test_corrections_outlive_the_service(file):
    suggest(opened(file), translation="Le chat dort.")
    assert lookup(opened(file)) == WISHED
    [kept] = CorrectionFile(file).list()
    assert (kept.source, kept.translation, kept.suggestion) == (SOURCE, "Le chat dort.", WISHED)


@pytest.mark.parametrize(
    ("settings", "acts"),
    [({}, True), ({"host": "::1"}, True), ({"host": "0.0.0.0"}, False), ({"proxies": ["127.0.0.1"]}, False)],
)
def test_callers_without_a_key_act_on_each_other_only_on_their_own_machine(file, settings, acts):
    corrections = opened(file, **settings)
    verdict = suggest(corrections, caller=NOBODY)
    assert (verdict.accepted, verdict.acts) == (True, acts)
    assert lookup(corrections, caller=NOBODY) == (WISHED if acts else None)
    suggest(corrections)
    assert lookup(corrections) == WISHED  # a key tells whose it is


def test_with_apply_accepted_nothing_acts_before_it_is_accepted(file):
    corrections = opened(file, "accepted")
    assert not suggest(corrections).acts
    assert lookup(corrections) is None
    assert command("accept", 1, "--file", file)[0] == 0
    assert lookup(opened(file, "accepted"), caller=BEN) == WISHED


def test_a_running_service_takes_what_is_accepted_and_rejected(file, monkeypatch):
    monkeypatch.setattr(module, "_LOOK_EVERY_S", 0.01)
    corrections = opened(file)

    async def until_ben_gets(suggestion):
        async with asyncio.timeout(300):
            while corrections.lookup("en", "fr", SOURCE, BEN) != suggestion:
                await asyncio.sleep(0.01)

    async def run():
        await corrections.suggest("en", "fr", SOURCE, WISHED, ANNE)
        assert corrections.lookup("en", "fr", SOURCE, BEN) is None
        CorrectionFile(file).decide("accepted", [1])
        await until_ben_gets(WISHED)
        CorrectionFile(file).decide("rejected", [1])
        await until_ben_gets(None)
        assert corrections.lookup("en", "fr", SOURCE, ANNE) is None

    asyncio.run(run())


def test_a_number_is_never_used_again(file):
    corrections = opened(file)
    for suggestion in (WISHED, "Le chat sommeille."):
        suggest(corrections, suggestion=suggestion)
    assert [one.id for one in CorrectionFile(file).list()] == [2]
    assert command("accept", 1, "--file", file)[0] == 2  # it was seen in the list, but is no more


def test_one_accepted_suggestion_replaces_another(file):
    corrections = opened(file)
    suggest(corrections)
    suggest(corrections, suggestion="Le chat sommeille.", caller=BEN)
    for number in (1, 2):
        assert command("accept", number, "--file", file)[0] == 0
    assert [(one.state, one.reasons) for one in CorrectionFile(file).list()] == [
        ("rejected", "replaced by 2"),
        ("accepted", ""),
    ]
    assert lookup(opened(file), caller=NOBODY) == "Le chat sommeille."


def test_a_flood_is_refused(file, monkeypatch):
    monkeypatch.setattr(module, "_MOST_OF_A_CALLER", 2)
    monkeypatch.setattr(module, "_MOST", 3)
    corrections = opened(file)
    for n, caller in ((1, ANNE), (2, ANNE), (3, BEN)):
        suggest(corrections, f"Cat number {n} sleeps.", f"Le chat numéro {n} dort.", caller)
    for caller in (ANNE, BEN):
        with pytest.raises(TooManyRequests, match="suggestions are pending"):
            suggest(corrections, "The dog barks.", "Le chien aboie.", caller)
    suggest(corrections, "Cat number 1 sleeps.", "Le chat numéro 1 roupille.")  # takes the place of an old one
    assert len(CorrectionFile(file).list()) == 3


@pytest.mark.parametrize(
    ("source", "suggestion", "error"),
    [
        (" ", WISHED, BadRequest),
        (SOURCE, "\n", BadRequest),
        ("x" * 2001, WISHED, TooLarge),
        (SOURCE, "é" * 2001, TooLarge),
        (SOURCE, "\ud800", BadRequest),
    ],
)
def test_what_is_no_correction_is_refused(file, source, suggestion, error):
    corrections = opened(file)
    with pytest.raises(error):
        suggest(corrections, source, suggestion)
    assert CorrectionFile(file).list() == []


def test_a_full_disk_is_said_and_nothing_acts(file):
    corrections = opened(file)
    in_loop(lambda: corrections._file.database.run(lambda connection: connection.execute("PRAGMA max_page_count=1")))
    with pytest.raises(Busy, match="store this now"):
        for n in range(50):
            suggest(corrections, f"Cat number {n} sleeps.", f"Le chat numéro {n} dort." + " Bien." * 300)
    assert lookup(corrections, f"Cat number {n} sleeps.") is None


def test_what_was_taken_survives_a_kill(file):
    code = f"""
    import asyncio, os
    from mtkit.config.serving import CorrectionsConfig, ServeConfig
    from mtkit.serving.records.corrections import Corrections
    from mtkit.serving.caller import Caller
    corrections = Corrections(ServeConfig(corrections=CorrectionsConfig(file={str(file)!r})))
    asyncio.run(corrections.suggest("en", "fr", {SOURCE!r}, {WISHED!r}, Caller("anne")))
    os.kill(os.getpid(), 9)
    """
    assert subprocess.run([sys.executable, "-c", textwrap.dedent(code)]).returncode == -9
    assert lookup(opened(file)) == WISHED


def test_a_file_of_another_kind_is_refused(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("no database " * 100, encoding="utf-8")
    with pytest.raises(MtkitError, match=r"notes\.txt: cannot keep corrections"):
        opened(file)


def test_list_shows_each_suggestion_on_a_line(file):
    corrections = opened(file)
    suggest(corrections, "The\tdog\nbarks.", "Le chien\naboie.")
    suggest(corrections, suggestion=SOURCE)
    code, shown = command("list", "--file", file)
    assert code == 0
    assert [line.split("\t")[:6] for line in shown.splitlines()] == [
        ["id", "state", "languages", "caller", "source", "suggestion"],
        ["1", "vetted", "en-fr", "anne", "The dog barks.", "Le chien aboie."],
        ["2", "held", "en-fr", "anne", "The cat sleeps.", "The cat sleeps."],
    ]
    assert "copy" in shown
    assert command("list", "--file", file, "--state", "accepted")[1].count("\n") == 1


def test_export_writes_a_corpus(file, tmp_path):
    corrections = opened(file)
    suggest(corrections, "The cat\nsleeps.", "Le chat\nroupille.")
    suggest(corrections, "The dog barks.", "Le chien aboie.")
    assert command("accept", 1, "--file", file)[0] == 0
    corpus = tmp_path / "corrections.tsv"
    assert command("export", "--file", file, "-o", corpus)[0] == 0
    assert corpus.read_text(encoding="utf-8") == "The cat sleeps.\tLe chat roupille.\n"
    assert command("export", "--file", file, "-o", corpus, "--vetted")[0] == 0
    assert len(corpus.read_text(encoding="utf-8").splitlines()) == 2
    assert command("export", "--file", file, "-o", file)[0] == 2
    assert len(CorrectionFile(file).list()) == 2


def test_commands_say_what_is_wrong(file, tmp_path):
    corpus = tmp_path / "corrections.tsv"
    assert command("list", "--file", file)[0] == 2
    assert not file.exists()
    corrections = opened(file)
    assert command("export", "--file", file, "-o", corpus)[0] == 2  # nothing to write
    suggest(corrections)
    assert command("accept", 1, 7, "--file", file)[0] == 2
    assert [one.state for one in CorrectionFile(file).list()] == ["vetted"]
    in_loop(lambda: corrections.suggest("en", "de", SOURCE, "Die Katze schläft.", ANNE))
    assert command("export", "--vetted", "--file", file, "-o", corpus)[0] == 2  # of which pair?
    assert command("export", "--vetted", "--file", file, "-o", corpus, "--tgt-lang", "de")[0] == 0

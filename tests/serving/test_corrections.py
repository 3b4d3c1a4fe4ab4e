"""Corrections: which are taken, for whom they act, and what an operator makes of them."""

import asyncio
import sqlite3

import pytest

from mtkit.config.serving import ServeConfig
from mtkit.errors import MtkitError, UsageError
from mtkit.serving import correction_file
from mtkit.serving import corrections as module
from mtkit.serving.corrections import Corrections, check
from mtkit.serving.refusals import BadRequest, Busy
from mtkit.serving.service import Caller

ANN, BOB, NOBODY = Caller("ann"), Caller("bob"), Caller()
TEXT, BETTER = "I love oranges.", "J'adore les oranges."


@pytest.fixture
def path(tmp_path):
    return tmp_path / "corrections.sqlite"


@pytest.fixture
def open_corrections(path):
    """open_corrections() opens the file; it is closed after the test."""
    opened = []

    def open_them(*, acts=True, anonymous_acts=True):
        opened.append(Corrections(path, acts=acts, anonymous_acts=anonymous_acts))
        return opened[-1]

    yield open_them
    for corrections in opened:
        corrections.close()


def suggest(corrections, text=TEXT, suggestion=BETTER, caller=ANN, src="en", tgt="fr"):
    return asyncio.run(corrections.suggest(src, tgt, text, suggestion, caller))


def lookup(corrections, text=TEXT, caller=ANN, src="en", tgt="fr"):
    """What acts, once a change by another process has been seen."""

    async def look():
        corrections._looked = 0.0
        corrections.lookup(src, tgt, text, caller)
        if corrections._reloading is not None:
            await corrections._reloading
        return corrections.lookup(src, tgt, text, caller)

    return asyncio.run(look())


def test_a_good_correction_acts_at_once_for_its_caller_alone(open_corrections):
    corrections = open_corrections()
    verdict = suggest(corrections)
    assert (verdict.accepted, verdict.reasons) == (True, [])
    assert lookup(corrections) == BETTER
    assert [lookup(corrections, caller=caller) for caller in (BOB, NOBODY)] == [None, None]


@pytest.mark.parametrize("text", ["I  love oranges. ", "I\nlove oranges."])
def test_white_space_does_not_matter(open_corrections, text):
    corrections = open_corrections()
    suggest(corrections)
    assert lookup(corrections, text) == BETTER


def test_accents_match_in_either_composition(open_corrections):
    corrections = open_corrections()
    suggest(corrections, "caf\u00e9", "coffee", src="fr", tgt="en")
    assert lookup(corrections, "cafe\u0301", src="fr", tgt="en") == "coffee"


@pytest.mark.parametrize("other", [{"text": "I love orange."}, {"src": "de"}, {"tgt": "de"}])
def test_other_texts_and_languages_are_not_touched(open_corrections, other):
    corrections = open_corrections()
    suggest(corrections)
    assert lookup(corrections, **other) is None


@pytest.mark.parametrize(
    ("text", "suggestion", "reason"),
    [
        ("It costs 12 euros.", "Cela coûte des euros.", "it loses a number: 12"),
        ("See https://a.example/x for it.", "Voyez cela.", "it loses an address: https://a.example/x"),
        ("Hello {name}, how are you?", "Bonjour, comment allez-vous ?", "its variables or addresses are not those"),
        ("I love it.", '<img src="x"> Je l\'aime.', "its tags are not those"),
        ("I love it.", "Je\nl'aime.", "line ends"),
        ("I love it.", "Je l'aime, " + "et puis je raconte une longue histoire " * 4, "its length is unlikely"),
        ("The old dog sees the small black cat.", "The old dog sees the small black cat.", "it copies the text"),
        ("I love it.", "!", "it is empty"),
    ],
)
def test_a_doubtful_correction_is_kept_but_does_not_act(open_corrections, path, text, suggestion, reason):
    corrections = open_corrections()
    verdict = suggest(corrections, text, suggestion)
    assert not verdict.accepted
    assert any(reason in each for each in verdict.reasons), verdict.reasons
    assert lookup(corrections, text) is None
    [kept] = correction_file.read_file(path, "held")
    assert reason in kept.reasons


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [("It costs 12 euros.", "Cela coûte douze euros."), ("a <b>red</b> cat", "un chat <b>rouge</b>"), ("Yes.", "Oui.")],
)
def test_good_corrections_pass_the_checks(text, suggestion):
    assert check(text, suggestion, "fr") == []


@pytest.mark.parametrize(("text", "suggestion"), [("", "a"), ("a", " "), ("a", "b\0"), ("a\x1b", "b"), ("a", "\ud800")])
def test_what_is_no_correction_is_refused(open_corrections, path, text, suggestion):
    with pytest.raises(BadRequest):
        suggest(open_corrections(), text, suggestion)
    assert correction_file.read_file(path, "all") == []


def test_a_second_thought_replaces_the_first(open_corrections):
    corrections = open_corrections()
    suggest(corrections)
    suggest(corrections, suggestion="J'aime les oranges.")
    assert lookup(corrections) == "J'aime les oranges."
    suggest(corrections)
    assert lookup(corrections) == lookup(open_corrections()) == BETTER


def test_corrections_outlive_the_service(open_corrections):
    suggest(open_corrections())
    assert lookup(open_corrections()) == BETTER


def test_an_accepted_correction_acts_for_all_without_a_restart(open_corrections, path):
    corrections = open_corrections()
    suggest(corrections)
    [kept] = correction_file.read_file(path, "vetted")
    correction_file.decide(path, [kept.id], "accepted")
    assert lookup(corrections, caller=BOB) == BETTER


def test_the_callers_own_correction_comes_before_an_accepted_one(open_corrections, path):
    corrections = open_corrections()
    suggest(corrections)
    correction_file.decide(path, [1], "accepted")
    suggest(corrections, suggestion="J'aime les oranges.", caller=BOB)
    assert lookup(corrections, caller=BOB) == "J'aime les oranges."
    assert lookup(corrections, caller=NOBODY) == BETTER


def test_a_rejected_correction_acts_for_nobody_even_if_it_comes_again(open_corrections, path):
    corrections = open_corrections()
    suggest(corrections)
    correction_file.decide(path, [1], "rejected")
    assert lookup(corrections) is None
    verdict = suggest(corrections)
    assert (verdict.accepted, verdict.reasons) == (False, ["the operator has rejected it"])
    assert lookup(corrections) is None


def test_corrections_of_strangers_wait_for_the_operator(open_corrections):
    corrections = open_corrections(anonymous_acts=False)
    verdict = suggest(corrections, caller=NOBODY)
    assert (verdict.accepted, verdict.reasons) == (False, ["it waits for the operator"])
    assert lookup(corrections, caller=NOBODY) is None
    assert suggest(corrections, caller=ANN).accepted


@pytest.mark.parametrize(("host", "acts"), [("127.0.0.1", True), ("0.0.0.0", False)])
def test_whether_strangers_can_come_is_told_by_the_address(path, host, acts):
    corrections = Corrections.from_config(ServeConfig.model_validate({"host": host, "corrections": {"file": path}}))
    assert corrections is not None
    assert suggest(corrections, caller=NOBODY).accepted == acts
    corrections.close()


def test_nothing_acts_before_it_is_accepted_if_the_operator_wants_it_so(open_corrections, path):
    corrections = open_corrections(acts=False)
    assert not suggest(corrections).accepted
    correction_file.decide(path, [1], "accepted")
    assert lookup(corrections) == BETTER


def test_a_flood_is_refused(open_corrections, monkeypatch):
    monkeypatch.setattr(module, "_MOST_OF_A_CALLER", 2)
    corrections = open_corrections()
    for number in range(2):
        suggest(corrections, f"Text {number}.", f"Texte {number}.")
    with pytest.raises(Busy, match="too many corrections"):
        suggest(corrections)
    assert suggest(corrections, caller=BOB).accepted


def test_an_export_has_the_newest_accepted_correction_of_each_text(open_corrections, path, tmp_path):
    corrections = open_corrections()
    suggest(corrections, suggestion="J'aime les oranges.")
    suggest(corrections)
    suggest(corrections, "Yes.", "Oui.")
    suggest(corrections, "No.", "Non.")
    suggest(corrections, "Yes.", "Ja.", tgt="de")
    correction_file.decide(path, [1, 2, 3, 5], "accepted")
    target = tmp_path / "corpus.tsv"
    assert correction_file.export(path, target, "en", "fr", with_vetted=False) == 2
    assert target.read_text() == f"{TEXT}\t{BETTER}\nYes.\tOui.\n"
    assert correction_file.export(path, target, "eng", "fr", with_vetted=True) == 3


def test_a_decision_about_a_number_that_is_not_there_changes_nothing(open_corrections, path):
    suggest(open_corrections())
    with pytest.raises(UsageError, match="no correction 9"):
        correction_file.decide(path, [1, 9], "accepted")
    assert [each.state for each in correction_file.read_file(path, "all")] == ["vetted"]


def test_another_file_is_refused_and_stays_as_it_was(path):
    path.write_text("no database")
    with pytest.raises(MtkitError, match="name another file"):
        Corrections(path, acts=True, anonymous_acts=True)
    assert path.read_text() == "no database"


def test_a_file_that_is_locked_for_long_is_said(open_corrections, path, monkeypatch):
    monkeypatch.setattr("mtkit.serving.database._WAIT_S", 0.1)
    corrections = open_corrections()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(Busy, match="cannot read or keep this now"):
            suggest(corrections)
    finally:
        other.close()

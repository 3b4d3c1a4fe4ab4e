"""Glossaries in their file: what is kept, for whom, within which limits, and what happens when the file is no good."""

import asyncio
import sqlite3
import stat

import pytest

from mtkit.errors import MtkitError
from mtkit.serving.caller import Caller
from mtkit.serving.records import glossaries as module
from mtkit.serving.records.glossaries import Dictionary, Glossaries, TooManyGlossaries, read_entries
from mtkit.serving.refusals import BadRequest, Busy, NotFound, TooLarge

ANN, BOB = Caller("ann"), Caller("bob")
EN_FR, FR_EN = ("en", "fr"), ("fr", "en")
CATS = [("cat", "chat"), ("dog", "chien")]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "glossaries.sqlite"


@pytest.fixture
def glossaries(path):
    opened = Glossaries(path, 5)
    yield opened
    opened.close()


def test_a_glossary_outlives_the_service(path):
    async def first():
        glossaries = Glossaries(path, 5)
        made = await glossaries.create(ANN, " Animals ", {EN_FR: CATS, FR_EN: [("chat", "cat")]})
        glossaries.close()
        return made

    async def second(id):
        glossaries = Glossaries(path, 5)
        try:
            return await glossaries.get(id, ANN), await glossaries.entries(id, ANN, EN_FR)
        finally:
            glossaries.close()

    made = asyncio.run(first())
    assert made.name == "Animals"
    assert made.dictionaries == [Dictionary(EN_FR, 2), Dictionary(FR_EN, 1)]
    assert asyncio.run(second(made.id)) == (made, CATS)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_a_killed_service_had_kept_is_there(path):
    """The file as it is on the disk while the service still has it open: that is what a kill leaves."""

    async def scenario():
        killed = Glossaries(path, 5)
        made = await killed.create(ANN, "Animals", {EN_FR: CATS})
        other = Glossaries(path, 5)
        try:
            return await other.entries(made.id, ANN, EN_FR)
        finally:
            other.close()
            killed.close()

    assert asyncio.run(scenario()) == CATS


def test_to_each_caller_the_glossaries_of_others_do_not_exist(glossaries):
    async def scenario():
        made = await glossaries.create(ANN, "Animals", {EN_FR: CATS})
        for caller in (BOB, Caller()):
            assert await glossaries.all_of(caller) == []
            for refused in (
                glossaries.get(made.id, caller),
                glossaries.entries(made.id, caller, EN_FR),
                glossaries.update(made.id, caller, name="Mine"),
                glossaries.replace(made.id, caller, EN_FR, CATS[:1]),
                glossaries.remove_dictionary(made.id, caller, EN_FR),
                glossaries.remove(made.id, caller),
            ):
                with pytest.raises(NotFound):
                    await refused
        return made, await glossaries.all_of(ANN)

    made, kept = asyncio.run(scenario())
    assert kept == [made]


def test_entries_are_added_replaced_and_removed(glossaries):
    async def scenario():
        made = await glossaries.create(ANN, "Animals", {EN_FR: CATS})
        changed = await glossaries.update(
            made.id, ANN, name="Pets", entries={EN_FR: [("dog", "toutou"), ("cow", "vache")]}
        )
        assert (changed.name, changed.dictionaries) == ("Pets", [Dictionary(EN_FR, 3)])
        assert await glossaries.entries(made.id, ANN, EN_FR) == [("cat", "chat"), ("dog", "toutou"), ("cow", "vache")]
        assert await glossaries.replace(made.id, ANN, EN_FR, [("cow", "vache")]) == Dictionary(EN_FR, 1)
        assert await glossaries.entries(made.id, ANN, EN_FR) == [("cow", "vache")]
        await glossaries.remove_dictionary(made.id, ANN, EN_FR)
        assert (await glossaries.get(made.id, ANN)).dictionaries == []
        for pair in (EN_FR, FR_EN):
            with pytest.raises(NotFound, match="no dictionary"):
                await glossaries.remove_dictionary(made.id, ANN, pair)
            with pytest.raises(NotFound, match="no dictionary"):
                await glossaries.entries(made.id, ANN, pair)
        await glossaries.remove(made.id, ANN)
        assert await glossaries.all_of(ANN) == []

    asyncio.run(scenario())


def test_entries_of_a_removed_glossary_are_gone(glossaries, path):
    async def scenario():
        made = await glossaries.create(ANN, "Animals", {EN_FR: CATS})
        await glossaries.remove(made.id, ANN)

    asyncio.run(scenario())
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM entry").fetchone() == (0,)
    connection.close()


def test_limits_leave_everything_as_it_was(glossaries, monkeypatch):
    monkeypatch.setattr(module, "_MOST_GLOSSARIES", 3)
    monkeypatch.setattr(module, "_FULL_GLOSSARIES", 2)
    six = [(str(n), "x") for n in range(6)]

    async def scenario():
        with pytest.raises(TooLarge, match="5 entries"):
            await glossaries.create(ANN, "six", {EN_FR: six})
        assert await glossaries.all_of(ANN) == []
        made = await glossaries.create(ANN, "five", {EN_FR: six[:5]})
        with pytest.raises(TooLarge):
            await glossaries.update(made.id, ANN, name="six", entries={FR_EN: six[:1]})
        assert await glossaries.get(made.id, ANN) == made
        await glossaries.create(ANN, "five more", {EN_FR: six[:5]})
        with pytest.raises(TooManyGlossaries, match="11 entries"):
            await glossaries.create(ANN, "one more", {EN_FR: six[:1]})
        await glossaries.create(ANN, "none", {})
        with pytest.raises(TooManyGlossaries, match="3 glossaries") as refusal:
            await glossaries.create(ANN, "none", {})
        await glossaries.create(BOB, "bob's", {EN_FR: six[:5]})
        return refusal.value.status, [glossary.name for glossary in await glossaries.all_of(ANN)]

    assert asyncio.run(scenario()) == (456, ["five", "five more", "none"])


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "é" * 513])
def test_names_have_limits(glossaries, name):
    with pytest.raises(BadRequest, match="name"):
        asyncio.run(glossaries.create(ANN, name, {EN_FR: CATS}))


@pytest.mark.parametrize(
    ("text", "format", "entries"),
    [
        ("cat\tchat\r\n\r\n dog \t  le  chien\n", "tsv", [("cat", "chat"), ("dog", "le chien")]),
        ('cat,chat\n"red, wine","vin ""rouge"""\n', "csv", [("cat", "chat"), ("red, wine", 'vin "rouge"')]),
        ("cat,chat,en,fr\ndog,chien,EN-GB,FR\n", "csv", CATS),
        ("cat\tchat\ncat\tchat", "tsv", CATS[:1]),
        ("cafe\u0301\tcafé", "tsv", [("café", "café")]),
    ],
)
def test_entries_are_read(text, format, entries):
    assert read_entries(text, format, EN_FR) == entries


@pytest.mark.parametrize(
    ("text", "format", "fact"),
    [
        ("", "tsv", "at least one entry"),
        ("cat\tchat\ndog", "tsv", "entry 2.*target"),
        ("cat\tchat\tx", "tsv", "entry 1"),
        ("\tchat", "tsv", "entry 1"),
        ("cat\tchat\ncat\tminou", "tsv", "entry 2.*'cat'"),
        ("cat,chat,de,fr", "csv", "entry 1"),
        ('cat,"chat', "csv", "not valid CSV"),
        ("c\x00at\tchat", "tsv", "control"),
        ("c\u2028at\tchat", "tsv", "control"),
        ("*\tchat", "tsv", r"'\*' alone"),
        ("cat\tchat | minou", "tsv", r"'\|' alone"),
        ("é" * 513 + "\tchat", "tsv", "1,024 bytes"),
        ("c\ud800at\tchat", "tsv", "control"),
    ],
)
def test_what_is_no_entry_is_refused_by_its_line(text, format, fact):
    with pytest.raises(BadRequest, match=fact):
        read_entries(text, format, EN_FR)


def test_a_file_that_is_none_of_glossaries_is_refused(tmp_path):
    (tmp_path / "text").write_text("no database " * 100)
    with sqlite3.connect(tmp_path / "other") as connection:
        connection.execute("CREATE TABLE a (b)")
    connection.close()
    for path, fact in (
        (tmp_path / "text", "not a database"),
        (tmp_path / "other", "of glossaries of version"),
    ):
        with pytest.raises(MtkitError, match=fact) as error:
            Glossaries(path, 5)
        assert str(path) in str(error.value)
    with pytest.raises(MtkitError, match="No such file"):
        Glossaries(tmp_path / "missing" / "file", 5)


def test_a_full_disk_refuses_and_keeps_what_was_there(glossaries):
    async def scenario():
        made = await glossaries.create(ANN, "Animals", {EN_FR: CATS})
        connection = glossaries._database._connection
        [pages] = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count={pages}")  # what SQLite makes of a full disk
        long = [(str(n) * 500, "x") for n in range(5)]
        with pytest.raises(Busy, match="cannot") as refusal:
            for _ in range(50):
                await glossaries.create(ANN, "more", {EN_FR: long})
        assert refusal.value.retry_after_s
        return await glossaries.entries(made.id, ANN, EN_FR)

    assert asyncio.run(scenario()) == CATS


def test_another_process_that_writes_is_waited_for_not_for_ever(path, monkeypatch):
    monkeypatch.setattr("mtkit.serving.records.database._WAIT_S", 0.05)
    glossaries = Glossaries(path, 5)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Busy):
        asyncio.run(glossaries.create(ANN, "Animals", {EN_FR: CATS}))
    other.execute("COMMIT")
    other.close()
    assert asyncio.run(glossaries.create(ANN, "Animals", {EN_FR: CATS})).dictionaries
    glossaries.close()


TERMS = [("artist", "Maler"), ("proton beam", "Strahl"), ("Source-$1", "Ziel"), ("iPhone", "Telefon"), ("US", "USA")]


@pytest.mark.parametrize(
    ("sentence", "sources"),
    [
        ("The artist was awarded a prize.", ["artist"]),
        ("ARTIST", ["artist"]),
        ("artists", []),
        ("A Proton  Beam and an artist", ["proton beam", "artist"]),
        ("a proton", []),
        ("Source-$1 is here", ["Source-$1"]),
        ("source-$1", []),  # a term with a capital applies as it is written
        ("IPhone", ["iPhone"]),  # at the beginning of a sentence
        ("give us", []),
        ("", []),
    ],
)
def test_the_entries_of_a_sentence_are_those_that_a_terminology_applies(glossaries, sentence, sources):
    async def scenario():
        id = (await glossaries.create(ANN, "Terms", {EN_FR: TERMS})).id
        return await glossaries.terms_in([sentence], id, ANN, EN_FR)

    assert asyncio.run(scenario()) == {source: dict(TERMS)[source] for source in sources}


def test_the_entries_of_others_are_not_found(glossaries):
    async def scenario():
        id = (await glossaries.create(ANN, "Cats", {EN_FR: CATS})).id
        with pytest.raises(NotFound):
            await glossaries.terms_in(["cat"], id, BOB, EN_FR)
        with pytest.raises(NotFound, match="fr-en"):
            await glossaries.terms_in(["cat"], id, ANN, FR_EN)

    asyncio.run(scenario())


def test_the_cost_of_a_sentence_does_not_grow_with_the_glossary(path):
    """Count what SQLite reads for a sentence, with 2 entries and with 20,000 that begin like its words."""

    async def reads(n_entries):
        glossaries = Glossaries(path, n_entries)
        id = (await glossaries.create(ANN, "Large", {EN_FR: [(f"Source-{i}", f"{i}") for i in range(n_entries)]})).id
        statements: list[str] = []
        glossaries._database._connection.set_trace_callback(statements.append)
        [*found] = await glossaries.terms_in(["Source-1 and the Source are here."], id, ANN, EN_FR)
        plan = "EXPLAIN QUERY PLAN " + statements[-2]
        [*steps] = glossaries._database._connection.execute(plan)
        glossaries.close()
        return found, len(statements), [step[-1] for step in steps]

    few, many = asyncio.run(reads(2)), asyncio.run(reads(20_000))
    assert few == many
    assert few[0] == ["Source-1"]
    assert len(many[2]) == 1 and "SEARCH entry USING INDEX" in many[2][0] and "source>?" in many[2][0]

"""Texts of requests as documents: read and filled without holding up other requests."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from scripted_service import scripted_backend

from mtkit.documents import filling
from mtkit.documents.reading import Options, document_of
from mtkit.memory.index import Memory
from mtkit.pair_files.pairs import Pair
from mtkit.serving import texts
from mtkit.serving.models import Model
from mtkit.serving.workers.work import ModelVersion


@pytest.mark.parametrize("part", ["fill", "sentences_to_translate"])
@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("<p>One <b>two</b>.</p>", {"format": "html"}),
        ("One. " * 1_500, {}),
        ("One <x/> two.", {"read": lambda text: document_of(text.encode(), "html", Options(format="html"), "text")}),
    ],
    ids=["html", "long", "reader"],
)
def test_others_are_served_while_a_text_is_read_and_filled(part, text, options, monkeypatch):
    backend, _ = scripted_backend([("en", "fr")])
    begun, others_served = threading.Event(), threading.Event()
    work = getattr(filling, part)

    def waits(*arguments):
        begun.set()
        assert others_served.wait(300), "the event loop stood still"
        return work(*arguments)

    async def scenario():
        request = asyncio.ensure_future(backend.service.translate(text, "en", "fr", **options))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        others_served.set()
        return await request

    monkeypatch.setattr(texts, part, waits)
    assert "ONE" in asyncio.run(scenario()).text


@pytest.mark.parametrize(
    ("text", "translation"),
    [
        ("cat", "chat"),
        ("Cat", "chat"),
        ("\ncat\n\nCAT\n", "\nchat\n\nchat\n"),
        ("NASA", "Nasa"),
        ("nasa", "NASA"),  # a term with capitals applies as it is written
        ("a cat", "A CAT"),
    ],
)
def test_a_sentence_that_is_a_term_is_its_target(text, translation):
    backend, script = scripted_backend([("en", "fr")])
    terms = [("cat", "chat | chatte"), ("NASA", "Nasa")]
    translated = asyncio.run(backend.service.translate(text, "en", "fr", terms=terms))
    assert translated.text == translation
    assert script.begun == ([text] if translation.isupper() else [])  # the script translates into capitals


@pytest.mark.parametrize("format", ["text", "html"])
@pytest.mark.parametrize("unit", ["sit tibi, terra levis ", "word ", "x"])
def test_a_sentence_of_a_page_is_cut_before_it_is_queued(unit, format):
    """So no batch is much larger than queue.batch_tokens, and a caller who leaves takes most of the work along."""
    backend, script = scripted_backend([("en", "fr")])
    text = (unit * 10_000)[:10_000].strip()
    translated = asyncio.run(backend.service.translate(text, "en", "fr", format=format))
    assert translated.text == text.upper()
    assert max(map(len, script.begun)) <= 1_000


def test_a_paragraph_of_the_models_memory_is_one_sentence():
    memory = Memory.of_pairs([Pair("One cat. Two dogs.", "TOUT", "m.tmx", 1)], ("en", "fr"), "m.tmx")
    plain = Model(ModelVersion(Path("en-fr"), "1"), "en", "fr", 4)

    def sentences(text, model):
        async def read():
            source = await texts.SourceText.read(text, "text", "en")
            return [sentence.text for sentence in (await source.joined(model)).sentences]

        return asyncio.run(read())

    assert sentences("One cat. Two dogs.\nNo dog. One cat.", replace(plain, memory=memory)) == [
        *("One cat. Two dogs.", "No dog.", "One cat.")
    ]
    assert sentences("One cat. Two dogs.", plain) == ["One cat.", "Two dogs."]
    memory.close()

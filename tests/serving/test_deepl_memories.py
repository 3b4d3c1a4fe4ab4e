"""Translation memories of DeepL's clients: their own Python client on a server that listens."""

import time
from types import SimpleNamespace

import pytest
from deepl_requests import client_with
from tiny_server import loud_backend, running

from mtkit.serving.records.key_file import add_key

deepl = pytest.importorskip("deepl", reason="needs clients: pip install mtkit[dev]")

TUV = '<tuv xml:lang="{}"><seg>{}</seg></tuv>'
PAIRS = [("one cat", "UN CHAT"), ("two big dogs &amp; more", "DEUX"), ("a mouse", "une souris")]
UNITS = "".join(f"<tu>{TUV.format('en', src)}{TUV.format('fr', tgt)}</tu>" for src, tgt in PAIRS)
TMX = f"<tmx>{UNITS}{{}}</tmx>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("service")


@pytest.fixture(scope="module")
def server(folder):
    keys = {"file": str(folder / "keys.yaml"), "required": True}
    add_key(folder / "keys.yaml", "nobody")
    settings = {"memories": str(folder / "memories"), "limits": {"max_memory_units": 5}}
    with running(loud_backend((("en", "fr"), ("de", "fr")), keys=keys, **settings)) as address:
        yield address


@pytest.fixture
def client(server, folder, monkeypatch):
    """The client of a caller without a past, which does not wait long for jobs."""
    clock = SimpleNamespace(time=time.time, sleep=lambda seconds: time.sleep(0.05))
    monkeypatch.setattr("deepl.deepl_client.time", clock)
    with client_with(add_key(folder / "keys.yaml", f"caller-{time.monotonic_ns()}"), server) as new:
        yield new


@pytest.fixture
def memory(client, tmp_path):
    path = tmp_path / "pets.tmx"
    path.write_text(TMX.format("<tu>" + TUV.format("en", "no target") + "</tu>"))
    job = client.import_translation_memory_from_filepath(path, display_name="Pets", timeout_s=60)
    assert (job.operation, job.status, job.result.skipped_segment_count) == ("import", "completed", 1)
    return client.get_translation_memory(job.result.translation_memory_id)


def test_an_imported_memory_is_listed_and_read(client, memory):
    assert (memory.name, memory.source_language, memory.target_languages) == ("Pets", "en", ["fr"])
    assert memory.segment_count == 3
    assert [one.translation_memory_id for one in client.list_translation_memories()] == [memory.translation_memory_id]
    assert client.list_translation_memories(page=1, page_size=1) == []
    first = client.list_translation_memory_segments(memory, page_size=2)
    assert [one.source_text for one in first] == ["one cat", "two big dogs & more"]
    rest = client.list_translation_memory_segments(memory, page_size=2, page_cursor=first.next_page_cursor)
    [last] = rest
    assert (last.targets[0].target_text, last.targets[0].target_language) == ("une souris", "fr")
    assert (rest.next_page_cursor, rest.segment_count) == (None, 3)
    found = client.list_translation_memory_segments(memory, filter_text="un ch")
    assert [one.source_text for one in found] == ["one cat"]
    assert len(client.list_translation_memory_segments(memory, filter_text="un ch", filter_case_sensitive=True)) == 0


def test_a_text_uses_the_exact_matches_of_a_memory(client, memory):
    def translate(texts, **options):
        options = {"source_lang": "EN", "target_lang": "FR", **options}
        return [result.text for result in client.translate_text(texts, **options)]

    assert translate(["one cat", "one dog"], translation_memory=memory) == ["UN CHAT", "ONE DOG"]
    assert translate(["one cat"]) == ["ONE CAT"]
    id = memory.translation_memory_id
    assert translate(["one cat"], translation_memory=id, translation_memory_threshold=100) == ["UN CHAT"]
    with pytest.raises(deepl.DeepLException, match="source_lang"):
        translate(["one cat"], translation_memory=memory, source_lang=None)
    with pytest.raises(deepl.DeepLException, match="en-fr"):
        translate(["one cat"], translation_memory=memory, source_lang="DE")


def test_a_text_uses_a_paragraph_of_a_memory(client, tmp_path):
    (tmp_path / "pets.tmx").write_text(
        f"<tmx><tu>{TUV.format('en', 'A cat. A dog.')}{TUV.format('fr', 'TOUT')}</tu></tmx>"
    )
    job = client.import_translation_memory_from_filepath(tmp_path / "pets.tmx", timeout_s=60)
    memory = job.result.translation_memory_id
    texts = ["A cat. A dog.", "A dog. A cat."]
    found = client.translate_text(texts, source_lang="EN", target_lang="FR", translation_memory=memory)
    assert [result.text for result in found] == ["TOUT", "A DOG. A CAT."]


def test_a_memory_becomes_a_tmx_again(client, memory, tmp_path):
    job = client.export_translation_memory_to_filepath(memory, tmp_path / "out.tmx")
    assert (job.operation, job.translation_memory_id) == ("export", memory.translation_memory_id)
    text = (tmp_path / "out.tmx").read_text()
    assert all(f"<seg>{part}</seg>" in text for pair in PAIRS for part in pair)


def test_a_memory_belongs_to_its_key_until_it_is_deleted(client, memory, server, folder, tmp_path):
    with client_with(add_key(folder / "keys.yaml", f"another-{time.monotonic_ns()}"), server) as other:
        assert other.list_translation_memories() == []
        calls = (
            lambda: other.get_translation_memory(memory),
            lambda: other.delete_translation_memory(memory),
            lambda: other.create_translation_memory_export(memory),
            lambda: other.list_translation_memory_segments(memory),
            lambda: other.translate_text("one cat", source_lang="EN", target_lang="FR", translation_memory=memory),
        )
        for call in calls:
            with pytest.raises(deepl.DeepLException, match="no such translation memory"):
                call()
    client.delete_translation_memory(memory)
    assert client.list_translation_memories() == []
    assert not (folder / "memories" / f"{memory.translation_memory_id}.memory").exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<tmx><tu>" + TUV.format("en", "alone") + "</tu></tmx>", "exactly two languages"),
        ("<tmx><tu>", "pets"),
        ("", "greater than 0"),
    ],
)
def test_a_file_that_cannot_be_read_fails_its_import(client, tmp_path, text, reason):
    path = tmp_path / "pets.tmx"
    path.write_text(text)
    with pytest.raises((deepl.DeepLException, ValueError), match=reason):
        client.import_translation_memory_from_filepath(path, timeout_s=60)
    assert client.list_translation_memories() == []


def test_the_units_of_a_caller_are_limited(client, memory, tmp_path):
    path = tmp_path / "pets.tmx"
    path.write_text(TMX.format(""))
    with pytest.raises(deepl.DeepLException, match="more than 5 units"):
        client.import_translation_memory_from_filepath(path, timeout_s=60)


def test_an_upload_needs_an_address_that_waits_for_it(client):
    job = client.create_translation_memory_import("pets.tmx", 10)
    with pytest.raises(deepl.DeepLException):
        client.upload_translation_memory_file(job.upload_url[:-1], b"<tmx/>")
    assert client.get_translation_memory_job(job.job_id).status == "awaiting_input"
    with pytest.raises(deepl.DeepLException, match="limit"):
        client.create_translation_memory_import("pets.tmx", 10**9)

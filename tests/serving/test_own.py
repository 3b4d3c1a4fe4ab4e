"""Our own API: what each route replies, streams in order, and what is refused."""

import json
import time
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest
from scripted_service import running, scripted_backend

from mtkit.serving.records.key_file import add_key
from mtkit.serving.refusals import Busy

PAIRS = ("en", "fr"), ("fr", "en"), ("fr", "de")
ONE_WORD = {"source": "en", "target": "fr", "sentence": "One.", "translation": "Un."}
ENGLISH = "The cat sleeps under the table and the old man reads his newspaper."


class Client:
    """Asks a service, and reads what it replies."""

    def __init__(self, backend, script, address):
        self.backend, self.script, self.host = backend, script, urlsplit(address).netloc

    def ask(self, method, path, values=None, *, body=None, kind="application/json", key=None):
        connection = HTTPConnection(self.host, timeout=300)
        headers = {"Content-Type": kind, **({"Authorization": f"Bearer {key}"} if key else {})}
        connection.request(method, path, json.dumps(values) if body is None else body, headers)
        reply = connection.getresponse()
        raw = reply.read()
        connection.close()
        is_json = "json" in (reply.getheader("Content-Type") or "")
        return reply, json.loads(raw) if is_json else raw

    def post(self, path, **values):
        reply, result = self.ask("POST", path, values)
        return reply.status, result

    def events(self, **values):
        reply, raw = self.ask("POST", "/api/stream", values)
        assert reply.status == 200, raw
        assert reply.getheader("Content-Type").startswith("text/event-stream")
        blocks = raw.decode().split("\n\n")
        assert blocks.pop() == ""
        lines = [block.split("\n") for block in blocks]
        assert all(len(pair) == 2 for pair in lines)
        return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in lines]

    def send_document(self, raw, name, key=None, **values):
        parts = [
            f'--x\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'
            for field, value in values.items()
        ]
        head = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
        body = "".join([*parts, head]).encode() + raw + b"\r\n--x--\r\n"
        return self.ask("POST", "/api/documents", body=body, kind="multipart/form-data; boundary=x", key=key)


@pytest.fixture
def service(tmp_path):
    backend, script = scripted_backend(PAIRS, limits={"max_chars": 200, "max_terms": 2})
    with running(backend) as address:
        yield Client(backend, script, address)


def test_it_says_what_it_does(service):
    _, offer = service.ask("GET", "/api/models")
    assert [(language["code"], language["name"]) for language in offer["languages"]] == [
        ("en", "English"),
        ("fr", "French"),
        ("de", "German"),
    ]
    assert {(pair["source"], pair["target"]): pair["path"] for pair in offer["pairs"]} == {
        ("en", "fr"): ["en", "fr"],
        ("fr", "en"): ["fr", "en"],
        ("fr", "de"): ["fr", "de"],
        ("en", "de"): ["en", "fr", "de"],
    }
    assert offer["limits"] == {"max_chars": 200, "max_alternatives": 4, "max_terms": 2, "max_file_mb": 10}
    assert ".docx" in offer["endings"] and not offer["needs_key"] and not offer["takes_keys"]


def test_a_translation_comes_with_what_is_known_of_its_sentences(service):
    service.script.translations = {"It rains.": "Il pleut.", "Dogs run!": "Les chiens courent !"}
    service.script.faults = {"Dogs run!": ["loop"]}
    service.script.confidences = {"It rains.": 0.75}
    service.script.read_as = {"Dogs run!": {"runn": "run"}}
    status, result = service.post(
        "/api/translate", text="It rains. Dogs run!\n\nIt rains.", source="en", target="fr", alternatives=1
    )
    assert status == 200
    assert (
        result["text"] == "Il pleut. Les chiens courent !\n\nIl pleut."
        and result["path"] == ["en", "fr"]
        and result["detected"] is None
    )
    assert result["alternatives"] == ["Il pleut. (2) Les chiens courent ! (2)\n\nIl pleut. (2)"]
    assert result["sentences"] == [
        {
            "src": "It rains.",
            "tgt": "Il pleut.",
            "confidence": 0.75,
            "faults": [],
            "alternatives": ["Il pleut. (2)"],
            "is_correction": False,
            "matches": [],
            "read_as": {},
        },
        {
            **{"src": "Dogs run!", "tgt": "Les chiens courent !", "confidence": None, "faults": ["loop"]},
            **{"alternatives": ["Les chiens courent ! (2)"], "is_correction": False, "matches": []},
            "read_as": {"runn": "run"},
        },
    ]


def test_the_way_through_another_language_is_named(service):
    service.script.read_as = {"One.": {"Won": "One"}, "ONE.": {"ONE": "TWO"}}
    _, result = service.post("/api/translate", text="One.", source="en", target="de")
    assert result["path"] == ["en", "fr", "de"]
    assert [sentence["read_as"] for sentence in result["sentences"]] == [{"Won": "One"}]  # the user's words


def test_the_language_is_found_out(service):
    _, result = service.post("/api/translate", text=ENGLISH, target="fr")
    assert result["detected"]["language"] == "en" and result["detected"]["confidence"] > 0.5
    assert result["detected"]["candidates"][0]["language"] == "en"
    assert result["path"] == ["en", "fr"]


def test_a_language_that_no_model_translates_is_refused(service):
    dutch = "De trein naar Berlijn vertrekt vandaag helaas later."
    status, result = service.post("/api/translate", text=dutch, target="fr")
    assert status == 400 and "set source" in result["error"]
    [(name, found)] = service.events(text=dutch, target="fr")
    assert name == "unsure" and found["language"] is None
    assert service.script.begun == []


def test_a_text_of_an_unclear_language_is_translated_from_the_likeliest_source(service):
    _, result = service.post("/api/translate", text="proton beam", target="fr")
    assert (result["text"], result["path"]) == ("PROTON BEAM", ["en", "fr"])
    assert result["detected"]["language"] is None and result["detected"]["confidence"] < 0.5


def test_a_text_without_letters_needs_no_language(service):
    _, result = service.post("/api/translate", text="1, 2, 3!", target="fr")
    assert (result["text"], result["detected"]["language"]) == ("1, 2, 3!", None)
    events = service.events(text=" ", target="fr")
    assert [name for name, _ in events] == ["start", "done"] and events[1][1]["text"] == " "


def test_terms_are_counted(service):
    service.script.translations = {"The cat and the dog.": "Le chat et le chien."}
    _, result = service.post(
        "/api/translate",
        text="The cat and the dog.",
        source="en",
        target="fr",
        terms=[["cat", "chat"], ["dog", "toutou"]],
    )
    assert result["terms"] == [
        {"source": "cat", "target": "chat", "required": 1, "met": 1},
        {"source": "dog", "target": "toutou", "required": 1, "met": 0},
    ]


def test_a_stream_has_the_sentences_in_order_and_then_the_whole(service):
    service.script.translations = {"It rains.": "Il pleut.", "Dogs run.": "Les chiens courent."}
    events = service.events(text="It rains. Dogs run.\nIt rains.", source="en", target="fr", terms=[["rains", "pleut"]])
    assert [name for name, _ in events] == ["start", "sentence", "sentence", "done"]
    assert events[0][1] == {"path": ["en", "fr"], "detected": None}
    assert [(data["src"], data["tgt"]) for _, data in events[1:3]] == [
        ("It rains.", "Il pleut."),
        ("Dogs run.", "Les chiens courent."),
    ]
    assert events[3][1] == {
        "text": "Il pleut. Les chiens courent.\nIl pleut.",
        "terms": [{"source": "rains", "target": "pleut", "required": 1, "met": 1}],
    }


def test_a_text_in_the_target_language_stays_as_it_is(service):
    events = service.events(text="Bonjour.", source="fr", target="fr")
    assert [(name, data.get("tgt")) for name, data in events] == [
        ("start", None),
        ("sentence", "Bonjour."),
        ("done", None),
    ]
    assert events[-1][1] == {"text": "Bonjour.", "terms": []} and service.script.begun == []
    _, result = service.post("/api/translate", text="Bonjour.", source="fr", target="fr")
    assert (result["text"], result["path"]) == ("Bonjour.", ["fr"])


def test_a_sentence_is_sent_before_the_next_one_is_done(service):
    service.script.held = {"Dogs run."}
    connection = HTTPConnection(service.host, timeout=300)
    body = json.dumps({"text": "It rains. Dogs run.", "source": "en", "target": "fr"})
    connection.request("POST", "/api/stream", body, {"Content-Type": "application/json"})
    reply = connection.getresponse()
    seen = b""
    while b"IT RAINS." not in seen:
        seen += reply.read1()
    assert service.script.ended == ["It rains."]
    service.script.held.clear()
    assert b"DOGS RUN." in reply.read()
    connection.close()


def test_a_refusal_before_the_first_sentence_is_told_by_the_status(service):
    service.script.refusals = {"It rains.": Busy("full", retry_after_s=7)}
    reply, result = service.ask("POST", "/api/stream", {"text": "It rains. Dogs run.", "source": "en", "target": "fr"})
    assert (reply.status, result) == (503, {"error": "full"}) and reply.getheader("Retry-After") == "7"


@pytest.mark.parametrize("path", ["/api/translate", "/api/stream"])
def test_a_full_queue_refuses_at_the_door(service, path, monkeypatch):
    def full(n):
        raise Busy("full", retry_after_s=7)

    monkeypatch.setattr(service.script, "check_room", full)
    reply, result = service.ask("POST", path, body="no JSON, which is not read")
    assert (reply.status, result) == (503, {"error": "full"}) and reply.getheader("Retry-After") == "7"


def test_a_refusal_after_the_first_sentence_is_an_event(service):
    service.script.refusals = {"Dogs run.": Busy("full", retry_after_s=7)}
    events = service.events(text="It rains. Dogs run.", source="en", target="fr")
    assert [name for name, _ in events] == ["start", "sentence", "error"]
    assert events[-1][1] == {"status": 503, "error": "full", "retry_after": 7}


@pytest.mark.parametrize("path", ["/api/translate", "/api/stream"])
def test_what_a_client_no_longer_waits_for_is_not_done(service, path):
    service.script.held = {"It rains.", "Dogs run."}
    connection = HTTPConnection(service.host, timeout=300)
    body = json.dumps({"text": "It rains. Dogs run.", "source": "en", "target": "fr"})
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    while not service.script.begun:
        time.sleep(0.01)
    connection.close()
    while service.script.given_up != service.script.begun:
        time.sleep(0.01)
    assert service.script.ended == []


def test_words_that_deserve_a_look_are_named(service):
    service.script.probabilities = {"dort": 0.05, "chat": 0.31}
    pairs = [{"src": "The cat sleeps.", "tgt": "Le chat dort"}, {"src": "Yes.", "tgt": "Oui."}]
    status, result = service.post("/api/words", source="en", target="fr", sentences=pairs)
    assert status == 200
    assert result["sentences"] == [
        {"probabilities": [0.9, 0.31, 0.05], "uncertain": [3]},
        {"probabilities": [0.9], "uncertain": []},
    ]


def test_other_words_come_with_the_translations_they_lead_to(service):
    service.script.others = {"dort": [("sommeille", 0.25)]}
    status, result = service.post(
        "/api/alternatives", source="en", target="fr", sentence="It sleeps.", translation="Il dort bien.", position=2
    )
    assert status == 200
    assert result == {
        "word": "dort",
        "probability": 0.9,
        "others": [{"word": "sommeille", "probability": 0.25, "translation": "Il sommeille and so on."}],
    }


@pytest.mark.parametrize(
    ("path", "values", "status", "message"),
    [
        ("translate", {"text": "x" * 201, "source": "en", "target": "fr"}, 413, "201"),
        ("stream", {"text": "x" * 201, "source": "en", "target": "fr"}, 413, "201"),
        ("stream", {"text": "x" * 201, "target": "fr"}, 413, "201"),  # before its language is looked for
        ("stream", {"text": "One.", "source": "en", "target": "xx"}, 400, "xx is not supported"),
        ("stream", {"text": "One.", "target": "xx"}, 400, "xx is not supported"),
        ("stream", {"text": "Eins.", "source": "de", "target": "fr"}, 400, "de cannot be translated into fr"),
        ("translate", {"text": "One.", "source": "en", "target": "fr", "alternatives": 5}, 400, "5 alternatives"),
        ("stream", {"text": "One.", "source": "en", "target": "fr", "terms": [["a", "b"]] * 3}, 413, "3 terms"),
        ("stream", {"text": "One.", "source": "en", "target": "fr", "terms": [["a", " "]]}, 400, "a term needs"),
        ("stream", {"text": "One.", "source": "en", "target": "de", "terms": [["a", "b"]]}, 400, "directly"),
        ("translate", {"text": "a\0b", "source": "en", "target": "fr"}, 422, "text"),
        ("translate", {"text": "One.", "source": "en", "target": "fr", "alternatives": False}, 422, "alternatives"),
        ("translate", {"text": "One.", "source": "en"}, 422, "target"),
        ("alternatives", {**ONE_WORD, "position": 2}, 400, "position 2"),
        ("alternatives", {**ONE_WORD, "position": 0}, 422, "position"),
        ("words", {"source": "en", "target": "de", "sentences": [{"src": "a", "tgt": "b"}]}, 400, "no single model"),
        ("words", {"source": "en", "target": "fr", "sentences": [{"src": "a" * 150, "tgt": "b"}] * 14}, 413, "2114"),
    ],
)
def test_what_is_refused(service, path, values, status, message):
    found, result = service.post(f"/api/{path}", **values)
    assert (found, message in result["error"]) == (status, True), result
    assert service.script.ended == []


def test_corrections_are_refused_where_they_are_off(service):
    assert service.backend.corrections is None
    status, result = service.post("/api/corrections", source="en", target="fr", text="a", translation="b")
    assert (status, result) == (403, {"error": "this service does not accept corrections"})


def test_a_correction_is_used_from_then_on(tmp_path):
    backend, script = scripted_backend(PAIRS, corrections={"file": str(tmp_path / "corrections.sqlite")})
    with running(backend) as address:
        client = Client(backend, script, address)
        values = {"source": "en", "target": "fr"}
        status, verdict = client.post("/api/corrections", text="It rains.", translation="Il pleut.", **values)
        assert (status, verdict) == (200, {"accepted": True, "acts": True, "reasons": []})
        _, result = client.post("/api/translate", text="It rains. Dogs run.", **values)
        assert [(sentence["tgt"], sentence["is_correction"]) for sentence in result["sentences"]] == [
            ("Il pleut.", True),
            ("DOGS RUN.", False),
        ]
        _, verdict = client.post("/api/corrections", text="She has 12 dogs.", translation="Elle a 13 chiens.", **values)
        assert not verdict["accepted"] and "12" in verdict["reasons"][0]
        _, offer = client.ask("GET", "/api/models")
        assert offer["takes_corrections"]


def test_a_key_has_its_own_documents_and_limits(tmp_path):
    file = tmp_path / "keys.yaml"
    anna, ben = add_key(file, "anna", max_chars=20), add_key(file, "ben")
    backend, script = scripted_backend(PAIRS, keys={"file": str(file), "required": True})
    with running(backend) as address:
        client = Client(backend, script, address)
        _, offer = client.ask("GET", "/api/models")
        assert offer["takes_keys"] and offer["needs_key"]
        values = {"text": "It rains. Dogs run. It rains.", "source": "en", "target": "fr"}
        statuses = [client.ask("POST", "/api/stream", values, key=key)[0].status for key in (None, "x", anna, ben)]
        assert statuses == [403, 403, 413, 200]
        src, tgt = "It rains today.", "Il pleut."
        asked: dict[str, dict[str, Any]] = {
            "words": {"sentences": [{"src": src, "tgt": tgt}]},
            "alternatives": {"sentence": src, "translation": tgt, "position": 1},
        }
        for name, more in asked.items():
            sent = {"source": "en", "target": "fr", **more}
            assert [client.ask("POST", f"/api/{name}", sent, key=key)[0].status for key in (anna, ben)] == [413, 200]
        _, job = client.send_document(b"It rains.", "a.txt", key=anna, source="en", target="fr")
        path = f"/api/documents/{job['id']}"
        for method, place in [("GET", path), ("GET", f"{path}/result"), ("DELETE", path)]:
            assert client.ask(method, place, key=ben)[0].status == 404
        assert client.ask("DELETE", path, key=anna)[0].status == 204


def ended(client, job):
    """What is said of a document once it is translated, or has failed."""
    deadline = time.monotonic() + 300
    while job["status"] not in ("done", "error"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
        _, job = client.ask("GET", f"/api/documents/{job['id']}")
    return job


def test_the_language_of_a_document_is_detected(service):
    _, job = service.send_document(b"The children are playing in the garden today.\n", "a.txt", target="fr")
    assert ended(service, job)["status"] == "done"
    _, raw = service.ask("GET", f"/api/documents/{job['id']}/result")
    assert raw == b"THE CHILDREN ARE PLAYING IN THE GARDEN TODAY.\n"
    _, job = service.send_document("Кошка спит под столом.\n".encode(), "a.txt", source="auto", target="fr")
    error = ended(service, job)["error"]
    assert "Russian" in error and "as the source" in error


def test_a_document_is_translated_and_forgotten(service):
    service.script.translations = {"It rains.": "Il pleut.", "Dogs run.": "Les chiens courent."}
    reply, job = service.send_document(b"It rains. Dogs run.\n\nIt rains.\n", "letter é.txt", source="en", target="fr")
    assert reply.status == 202 and job["name"] == "letter é_fr.txt" and job["error"] is None
    job = ended(service, job)
    assert (job["status"], job["n_done"], job["n_total"], job["error"]) == ("done", 2, 2, None)
    reply, raw = service.ask("GET", f"/api/documents/{job['id']}/result")
    assert raw == b"Il pleut. Les chiens courent.\n\nIl pleut.\n"
    assert reply.getheader("Content-Disposition") == "attachment; filename*=UTF-8''letter%20%C3%A9_fr.txt"
    reply, _ = service.ask("DELETE", f"/api/documents/{job['id']}")
    assert reply.status == 204
    reply, result = service.ask("GET", f"/api/documents/{job['id']}")
    assert reply.status == 404 and "no such document" in result["error"]


def test_terms_of_a_document_are_lines(service):
    reply, result = service.send_document(b"One.", "a.txt", source="en", target="fr", terms="One\tUn\n\nTwo\tDeux\n")
    assert reply.status == 202
    [job] = service.backend.documents._jobs.values()
    assert list(job.terms) == [("One", "Un"), ("Two", "Deux")]
    reply, result = service.send_document(b"One.", "a.txt", source="en", target="fr", terms="One")
    assert reply.status == 400 and "a term needs" in result["error"]


def test_a_document_of_an_unknown_format_is_refused(service):
    reply, result = service.send_document(b"One.", "a.exe", source="en", target="fr")
    assert reply.status == 400 and "docx" in result["error"]

"""What LibreTranslate's clients send, and what they get, around a service that translates into upper case."""

import asyncio
import json
import re

import pytest
from tiny_server import KeptCorrections, ask, client_of, loud_backend

from mtkit.serving.caller import Caller
from mtkit.serving.dialects.values import FORM
from mtkit.serving.documents import Documents
from mtkit.serving.records.key_file import add_key
from mtkit.serving.refusals import Busy, Fault, TooLate

EN_FR = {"source": "en", "target": "fr"}


def translate(backend=None, **values):
    return ask("POST", "/translate", backend, json={**EN_FR, **values})


def error_of(answer):
    [(name, message)] = answer.json().items()
    assert name == "error"
    return answer.status_code, message


@pytest.mark.parametrize(
    "request_of",
    [
        lambda values: {"json": values},
        lambda values: {"data": values},
        lambda values: {"params": values},
        lambda values: {"files": {name: (None, value) for name, value in values.items()}},
        lambda values: {"params": {"source": "en"}, "data": {"q": values["q"], "target": "fr"}},
        lambda values: {"content": json.dumps(values), "headers": {"Content-Type": "application/json; charset=utf-8"}},
    ],
    ids=["JSON", "form", "query", "multipart", "query and form", "JSON with a charset"],
)
def test_values_come_in_many_ways(request_of):
    answer = ask("POST", "/translate", **request_of({"q": "Salut, él & elle!", **EN_FR}))
    assert (answer.status_code, answer.json()) == (200, {"translatedText": "SALUT, ÉL & ELLE!"})


def test_raw_utf_8_in_a_form_is_read():
    body = "q=él&source=en&target=fr".encode()
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert ask("POST", "/translate", content=body, headers=form).json() == {"translatedText": "ÉL"}


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "text/plain"}, {"Content-Type": FORM}])  # FORM: `curl -d`
def test_json_that_is_not_said_to_be_json_is_told_so(headers):
    answer = ask("POST", "/translate", content=json.dumps({"q": "one", **EN_FR}), headers=headers)
    status, message = error_of(answer)
    assert status == 400
    assert "looks like JSON" in message and "Content-Type: application/json" in message


def test_a_list_of_texts_gives_a_list():
    assert translate(q=["one", "", "two"]).json() == {"translatedText": ["ONE", "", "TWO"]}
    assert translate(q=["one"]).json() == {"translatedText": ["ONE"]}
    repeated = ask("POST", "/translate", data={"q": ["one", "two"], **EN_FR})
    assert repeated.json() == {"translatedText": ["ONE", "TWO"]}


def test_alternatives_come_only_if_they_are_asked_for():
    assert translate(q="one", alternatives=2).json() == {"translatedText": "ONE", "alternatives": ["ONE 1", "ONE 2"]}
    several = translate(q=["one", "two"], alternatives=1).json()
    assert several["alternatives"] == [["ONE 1"], ["TWO 1"]]
    assert "alternatives" not in translate(q="one", alternatives=0).json()
    assert translate(q="one", alternatives="1").json()["alternatives"] == ["ONE 1"]
    assert translate(q="<b>one</b>", format="html", alternatives=1).json()["alternatives"] == []


def test_html_keeps_its_tags():
    assert translate(q="<p>one</p>", format="html").json() == {"translatedText": "<p>ONE</p>"}
    assert translate(q="<p>one</p>").json() != {"translatedText": "<p>ONE</p>"}


def test_the_language_of_each_text_is_detected():
    answer = translate(q=["each", "dort", "12 🎉"], source="auto").json()
    assert answer["translatedText"] == ["EACH", "DORT", "12 🎉"]
    assert answer["detectedLanguage"] == [
        {"confidence": 75.0, "language": "en"},
        {"confidence": 75.0, "language": "de"},
        {"confidence": 0.0, "language": "und"},
    ]
    assert translate(q="each", source="auto").json()["detectedLanguage"] == {"confidence": 75.0, "language": "en"}
    assert "detectedLanguage" not in translate(q="each").json()


def test_a_text_of_an_unclear_language_is_translated_from_the_likeliest_source():
    answer = translate(q=["dort", "xyz"], source="auto").json()
    assert answer["translatedText"] == ["DORT", "XYZ"]
    assert answer["detectedLanguage"][1] == {"confidence": 30.0, "language": "en"}


@pytest.mark.parametrize(
    ("code", "pair"), [("zt", "zh-hant"), ("zh", "zh-hans"), ("pb", "pt-br"), ("zh-Hant", "zh-hant"), ("ZT", "zh-hant")]
)
def test_their_names_of_languages_are_known(code, pair):
    backend = loud_backend((("en", "zh-hans"), ("en", "zh-hant"), ("en", "pt-br"), ("en", "pt-pt")))
    assert translate(backend, q="one", target=code).json() == {"translatedText": "ONE"}
    seen: list[str] = []
    backend.service.models.path = lambda src, tgt: seen.append(tgt) or []  # type: ignore[method-assign]
    translate(backend, q="one", target=code)
    assert seen == [pair]


def test_a_model_of_any_chinese_is_found_by_its_name():
    assert translate(loud_backend((("en", "zh"),)), q="one", target="zh").json() == {"translatedText": "ONE"}


def test_line_ends_of_forms_count_once():
    backend = loud_backend(limits={"max_chars": 3})
    text = "a\r\nb"
    assert ask("POST", "/translate", backend, data={"q": text, **EN_FR}).json() == {"translatedText": "A\nB"}
    assert error_of(translate(backend, q=text))[0] == 400  # in JSON they are what the client wrote
    answer = ask("POST", "/translate", backend, data={"q": "a\u2028b", **EN_FR})
    assert answer.json() == {"translatedText": "A\u2028B"}  # not the end of a line


@pytest.mark.parametrize("terms", [{"on": "un"}, [["on", "un"]]])
def test_terms_are_reported(terms):
    report = {"source": "on", "target": "un", "required": 1, "met": 0}
    assert translate(q="one", terms=terms).json() == {"translatedText": "ONE", "terms": [report]}
    assert translate(q=["one", "two"], terms=terms).json()["terms"] == [[report], []]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "Invalid request: missing q parameter"),
        ({"q": ""}, "Invalid request: missing q parameter"),
        ({"q": []}, "Invalid request: missing q parameter"),
        ({"q": None}, "Invalid request: missing q parameter"),
        ({"q": "a", "source": None}, "Invalid request: missing source parameter"),
        ({"q": "a", "source": "zz"}, "zz is not supported; the languages are en, fr, de"),
        ({"q": "a", "target": "zz"}, "zz is not supported; the languages are en, fr, de"),
        ({"q": "a", "target": "de"}, "en cannot be translated into de; .*pairs are en-fr, de-fr"),
        ({"q": "abcdef"}, r"request \(6\) exceeds text limit \(5\)"),
        ({"q": ["a"] * 51}, r"request \(51\) exceeds text limit \(50\)"),
        ({"q": ["abcde"] * 11}, r"request \(55\) .* \(50\) of all texts"),
        ({"q": "a", "alternatives": 9}, "alternatives parameter must be <= 4"),
        ({"q": "a", "alternatives": -1}, "alternatives parameter: .* greater than"),
        ({"q": "a", "alternatives": "two"}, "alternatives parameter: .* valid integer"),
        ({"q": "a", "format": "pdf"}, "format parameter: .* 'text' or 'html'"),
        ({"q": 7}, "q parameter: .* valid string"),
        ({"q": "a", "terms": "on"}, "Invalid request: terms parameter: "),
        ({"q": "a\0"}, "q parameter: .*NUL"),
    ],
)
def test_what_is_wrong_is_said_in_json(values, message):
    status, found = error_of(translate(loud_backend(limits={"max_chars": 5}), **values))
    assert status == 400
    assert re.search(message, found)


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b"7", b"\xff", b'{"q": "\\ud800", "source": "en", "target": "fr"}', b"[" * 10_000, b""],
    ids=["cut", "list", "number", "not UTF-8", "lone surrogate", "deep", "empty"],
)
def test_json_that_is_none_is_refused(body):
    answer = ask("POST", "/translate", content=body, headers={"Content-Type": "application/json"})
    status, message = error_of(answer)
    assert status == 400
    assert message.startswith("Invalid JSON format: ")


@pytest.mark.parametrize("body", [b"q=%ff&source=en&target=fr", b"&".join([b"a=1"] * 2000)])
def test_forms_that_cannot_be_read_are_refused(body):
    answer = ask("POST", "/translate", content=body, headers={"Content-Type": "application/x-www-form-urlencoded"})
    status, message = error_of(answer)
    assert (status, message[:43]) == (400, "Invalid request: the form cannot be read: n"[:43]) or "Max" in message


def test_a_form_in_an_odd_charset_gives_no_text_that_cannot_be_sent_back():
    body = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\n\\ud800\r\n--x\r\n'
    body += b'Content-Disposition: form-data; name="source"\r\n\r\n\\udfff\r\n--x--\r\n'
    kind = {"Content-Type": "multipart/form-data; boundary=x; charset=unicode_escape"}
    assert ask("POST", "/translate?target=fr", content=body, headers=kind).status_code == 400


def test_refusals_have_their_codes(tmp_path):
    add_key(tmp_path / "keys.yaml", "ann")
    keyed = loud_backend(keys={"file": tmp_path / "keys.yaml"})
    assert error_of(translate(keyed, q="a", api_key="guess")) == (403, "Invalid API key")

    async def twice():
        async with client_of(loud_backend(limits={"requests_per_minute": 1})) as client:
            await client.post("/translate", json={"q": "a", **EN_FR})
            return await client.post("/translate", json={"q": "a", **EN_FR})

    slow_down = asyncio.run(twice())
    assert error_of(slow_down)[1].startswith("Slowdown: ")
    assert (slow_down.status_code, slow_down.headers["Retry-After"]) == (429, "60")

    for fault, status in ((Busy("full", retry_after_s=3), 503), (TooLate("late"), 504)):
        backend = loud_backend()
        backend.service.fault = fault
        answer = translate(backend, q="a")
        assert error_of(answer) == (status, str(fault))
        assert answer.headers.get("Retry-After") == ("3" if status == 503 else None)


def test_a_text_that_fails_ends_its_list():
    async def scenario():
        backend = loud_backend(limits={"deadline_s": 300})
        async with client_of(backend) as client:
            answer = await client.post("/translate", json={"q": ["wait", "fail", "wait"], **EN_FR})
            await asyncio.sleep(0)
        return answer, backend.service.n_cancelled

    answer, n_cancelled = asyncio.run(scenario())
    assert (answer.status_code, n_cancelled) == (400, 2)


def test_detection_gives_the_candidates():
    assert ask("POST", "/detect", json={"q": "each"}).json() == [{"confidence": 75.0, "language": "en"}]
    assert ask("POST", "/detect", data={"q": "xyz"}).json()[0] == {"confidence": 0.0, "language": "und"}
    too_long = ask("POST", "/detect", loud_backend(limits={"max_chars": 5}), json={"q": "abcdef"})
    status, message = error_of(too_long)
    assert status == 400 and "(6) exceeds text limit (5)" in message
    assert error_of(ask("POST", "/detect", json={})) == (400, "Invalid request: missing q parameter")


def test_languages_are_listed_with_their_targets():
    assert ask("GET", "/languages").json() == [
        {"code": "en", "name": "English", "targets": ["fr"]},
        {"code": "fr", "name": "French", "targets": []},
        {"code": "de", "name": "German", "targets": ["fr"]},
    ]


@pytest.mark.parametrize("suggestion", ["better", "x"])
def test_suggestions_are_kept_also_doubtful_ones(suggestion):
    corrections = KeptCorrections()
    answer = ask("POST", "/suggest", loud_backend(corrections=corrections), data={"q": "one", "s": suggestion, **EN_FR})
    assert answer.json() == {"success": True}
    assert corrections.kept == [("en", "fr", "one", suggestion, Caller(), "ONE")]


def test_suggestions_are_refused_without_a_place_to_keep_them():
    off = ask("POST", "/suggest", json={"q": "one", "s": "better", **EN_FR})
    assert error_of(off) == (403, "Suggestions are disabled on this server.")


def test_settings_say_what_a_page_needs(tmp_path):
    add_key(tmp_path / "keys.yaml", "ann")
    backend = loud_backend(
        corrections=KeptCorrections(), keys={"file": tmp_path / "keys.yaml", "required": True}, limits={"max_chars": 9}
    )
    settings = ask("GET", "/frontend/settings", backend).json()
    assert ".docx" in settings.pop("supportedFilesFormat")
    assert settings.pop("frontendTimeout") > 0
    assert settings == {
        "charLimit": 9,
        "apiKeys": True,
        "keyRequired": True,
        "suggestions": True,
        "filesTranslation": True,
        "language": {"source": {"code": "auto", "name": "Auto Detect"}, "target": {"code": "fr", "name": "French"}},
    }
    plain = ask("GET", "/frontend/settings").json()
    assert (plain["apiKeys"], plain["keyRequired"], plain["suggestions"]) == (False, False, False)


def test_health():
    assert ask("GET", "/health").json() == {"status": "ok"}
    head = ask("HEAD", "/health")
    assert (head.status_code, head.content) == (200, b"")


def test_a_service_that_cannot_translate_is_not_healthy():
    backend = loud_backend()
    backend.service.can_translate = False
    answer = ask("GET", "/health", backend)
    status, message = error_of(answer)
    assert status == 503 and "no worker can translate" in message
    assert answer.headers["retry-after"] == "1"


@pytest.mark.parametrize(
    ("files", "data", "message"),
    [
        ({}, EN_FR, "missing file parameter"),
        ({"file": ("a.txt", b"")}, EN_FR, "empty file"),
        ({"file": ("a.txt", b"x")}, {"target": "fr"}, "missing source parameter"),
        ({"file": ("a.xyz", b"x")}, EN_FR, "file extension"),
        ({"file": ("a.txt", b"french")}, {"source": "auto", "target": "fr"}, "Source and target language"),
        ({"source": ("s.txt", b"en")}, {"target": "fr"}, "source parameter: Input should be a valid string"),
        ({"file": ("a.txt", b"x"), "other": ("b.txt", b"x")}, EN_FR, "Too many files"),
    ],
)
def test_files_that_are_wrong_are_refused(files, data, message):
    status, found = error_of(ask("POST", "/translate_file", files=files or None, data=data))
    assert status == 400
    assert re.search(message, found)


@pytest.mark.parametrize(
    ("refusal", "status"), [(None, 503), (TooLate("not done in time"), 504), (Fault("its log says why"), 500)]
)
def test_a_document_that_fails_tells_whose_fault_it_is(monkeypatch, refusal, status):
    async def failing(self, job):
        raise refusal or OSError(28, "No space left on device")

    monkeypatch.setattr(Documents, "_translate", failing)
    answer = ask("POST", "/translate_file", files={"file": ("a.txt", b"one")}, data=EN_FR)
    assert answer.status_code == status


def test_terms_are_limited():
    backend = loud_backend(limits={"max_terms": 2})
    terms = {str(number): "x" for number in range(3)}
    assert error_of(translate(backend, q="one", terms=terms)) == (400, "Invalid request: 3 terms are more than 2")


@pytest.mark.parametrize("name", ["x", "..%2f..%2fetc%2fpasswd", "%00", "a" * 5000, "%ff", "0.a_fr.txt"])
def test_files_that_are_not_there_are_not_found(name):
    assert error_of(ask("GET", f"/download_file/{name}"))[0] == 404


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nothing", 404), ("DELETE", "/translate", 405)])
def test_all_errors_are_json(method, path, status):
    answer = ask(method, path)
    assert error_of(answer)[0] == status
    assert status != 405 or answer.headers["Allow"] == "POST"


def test_a_fault_is_not_shown_and_its_text_is_not_logged(caplog):
    backend = loud_backend()
    backend.service.fault = ValueError("what the user wrote")
    answer = translate(backend, q="a")
    assert error_of(answer) == (500, "the service failed; its log says why")
    assert "ValueError" in caplog.text
    assert "tiny_server.py" in caplog.text
    assert "what the user wrote" not in caplog.text


def test_texts_may_be_logged(caplog):
    backend = loud_backend(log_text=True)
    backend.service.fault = ValueError("what the user wrote")
    translate(backend, q="a")
    assert "what the user wrote" in caplog.text

"""What tests of DeepL's dialect send."""

from tiny_server import ask

EN_TO_FR = {"source_lang": "EN", "target_lang": "FR"}


def translate(backend=None, **values):
    return ask("POST", "/v2/translate", backend, json={**EN_TO_FR, **values})


def error_of(answer):
    [(name, message)] = answer.json().items()
    assert name == "message"
    return answer.status_code, message

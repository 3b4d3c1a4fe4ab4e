"""What tests of DeepL's dialect send, and DeepL's own client."""

from contextlib import contextmanager

from tiny_server import ask

EN_TO_FR = {"source_lang": "EN", "target_lang": "FR"}


@contextmanager
def client_with(key, server):
    """DeepL's own client of a caller, for a server that listens."""
    import deepl  # here, because not all tests of the dialect need it

    client = deepl.DeepLClient(key, server_url=server)
    yield client
    client.close()


def translate(backend=None, **values):
    return ask("POST", "/v2/translate", backend, json={**EN_TO_FR, **values})


def error_of(answer):
    [(name, message)] = answer.json().items()
    assert name == "message"
    return answer.status_code, message

"""The page for people, opened in a browser."""

import pytest
from scripted_service import running, scripted_backend
from translation_page import FRENCH, PAIRS, Site


@pytest.fixture
def make_site(browser):
    contexts = []

    def make(**values):
        backend, script = scripted_backend(PAIRS, **values)
        script.translations = dict(FRENCH)
        contexts.append(running(backend))
        return Site(browser, backend, script, contexts[-1].__enter__())

    yield make
    for context in contexts:
        context.__exit__(None, None, None)


@pytest.fixture
def site(make_site):
    return make_site()

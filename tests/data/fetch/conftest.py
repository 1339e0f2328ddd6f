import pytest

from tests.data.fetch.server import serving


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving() as here:
        yield here

"""The code of the pages that explain does what they say."""

import httpx

from settled import transports
from tests.pages import run


def test_clients_are_watched_and_left_alone_again():
    alone = httpx.Client._send_single_request
    with httpx.Client() as client:
        run("docs/explanation/transports.md", 0, client=client)
    assert httpx.Client._send_single_request is alone, "all is put back"
    assert "httpx" in transports.install()
    assert httpx.Client._send_single_request is not alone
    transports.uninstall()
    assert httpx.Client._send_single_request is alone

"""The fault suite: our evidence against the other side's own count, for each way to fail and each client."""

import gc

import pytest

from settled import transports
from tests.transports.clients import CLIENTS
from tests.transports.rows import DONE, EITHER, NOTHING, REPEATING, ROWS, Row, play


# httpx leaves a connection unclosed whose TLS handshake is cancelled, watched or not.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
@pytest.mark.parametrize("client", CLIENTS)
def test_our_evidence_agrees_with_what_was_done(places, hooked, client, row):
    verdict = play(places, client, row)
    if row.cut:
        gc.collect()
    if row.truth is NOTHING:
        assert (verdict.evidence, verdict.effects) == ("none", 0)
    elif row.truth is EITHER:
        assert (verdict.evidence, verdict.effects) == ("maybe", 0)
    else:
        assert verdict.evidence in ("maybe", "done")
        assert verdict.effects == verdict.requests >= 1
    if row.name not in REPEATING:
        assert verdict.requests <= 1, "the client repeated it by itself"


def test_the_suite_asks_for_all_that_the_other_side_can_do(side):
    asked = {row.asks or "ok" for row in ROWS if row.at == "side"} | {"slow", "gzipped_402", "page", "plain_after_tls"}
    offered = {name.removeprefix("on_") for name in dir(side) if name.startswith("on_")} | {"reset_unread"}
    assert offered == asked
    assert {row.truth for row in ROWS} == {NOTHING, DONE, EITHER}


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("client", ["httpx", "httpx async", "aiohttp", "requests", "urllib3"])
def test_a_page_of_a_proxy_is_no_success_whatever_its_status(places, client, watched):
    if watched:
        transports.install()
    verdict = play(places, client, Row("200 by a proxy, with a page", NOTHING, asks="page"))
    assert (verdict.evidence, verdict.state, verdict.effects) == ("maybe", "unknown", 0)


# --- where nobody watches ------------------------------------------------------------------


@pytest.mark.parametrize("client", ["openai", "anthropic"])
def test_sdks_repeat_by_themselves_where_nobody_watches(places, client):
    row = Row("500 after the effect", DONE, asks="done_500")
    verdict = play(places, client, row)
    assert (verdict.evidence, verdict.effects) == ("maybe", 3)

"""The pages on web services, on measuring and on secrets show what works."""

import asyncio
import re
from types import SimpleNamespace

import pytest

import settled
from settled.core.commands import Tell
from tests.pages import run
from tests.shared import ROOT

KEY = "Zm9vYmFyYmF6Zm9vYmFyYmF6Zm9vYmFyYmF6MTIzNDU="


class Site:
    """Takes what a page declares, as FastAPI does."""

    def __init__(self, lifespan):
        self.lifespan = lifespan

    def post(self, path):
        del path
        return self._keep("view")

    def exception_handler(self, kind):
        self.caught = kind
        return self._keep("fails")

    def _keep(self, name):
        return lambda function: setattr(self, name, function)

    async def ask(self, **given):
        try:
            return await self.view(**given)
        except self.caught as error:
            return await self.fails(None, error)


def test_a_web_service():
    declared = {"find_charge": lambda call: settled.NotHappened(), "FastAPI": Site}
    answers = {"JSONResponse": lambda said, status_code: SimpleNamespace(said=said, status=status_code)}
    names = run(
        "docs/how-to/web-service.md",
        0,
        refund=settled.tool(effect="idempotent")(refund),
        replace={"postgresql://agents@db/agents": "memory://", "-> str: ...": "-> str: return made(amount)"},
        made=made,
        **declared,
        **answers,
    )
    site = names["app"]
    names["guard"].add(names["refund"])

    async def requests():
        async with site.lifespan(site):
            assert await site.ask(order="7", amount=5) == {"charge": "charge of 5"}
            assert await site.ask(order="7", amount=5) == {"charge": "charge of 5"}
            failed = await site.ask(order="8", amount=0)
            assert (failed.status, failed.said["error"]) == (409, "failed")
            undone = await site.ask(order="8", amount=1)
            assert (undone.status, undone.said["error"]) == (409, "run_undone")
            names["guard"].pause("charge", by="ann", reason="odd")
            paused = await site.ask(order="9", amount=1)
            assert (paused.status, paused.said["error"]) == (503, "rejected")

    asyncio.run(requests())


def made(amount):
    if not amount:
        raise settled.NotExecuted("nothing is charged")
    return f"charge of {amount}"


def refund(order: str, amount: int) -> str:
    return f"{amount} for {order}"


def test_counting_what_happens():
    names = run("docs/how-to/watch.md", 0)
    with names["guard"] as guard:
        guard.tool(effect="write")(refund)("7", 5)
    assert names["counted"] == {("outcome", "refund", "succeeded"): 1}


def test_every_event_stands_on_the_page_with_its_facts():
    """By the places that tell of one; a call tells its id, its tool and its state besides."""
    page = (ROOT / "docs/how-to/watch.md").read_text()
    rows = [line.split("|") for line in page.splitlines() if re.match(r"\| `\w+`(, `\w+`)* \| `", line)]
    listed = {name: re.findall(r"`(\w+)`", row[2]) for row in rows for name in re.findall(r"`(\w+)`", row[1])}
    told = {}
    for path in (ROOT / "src/settled").rglob("*.py"):
        if "cli" in path.parts:
            continue
        source = path.read_text()
        for name, facts in re.findall(r'\.tell\("(\w+)", \w+((?:, \w+=[^,\n]+?(?:\([^)]*\))?[^,\n]*?)*)\)', source):
            told.setdefault(name, set()).update(re.findall(r"(\w+)=", facts))
        for name, facts in re.findall(r'Tell\("(\w+)", call, \{([^}]*)\}', source):
            told.setdefault(name, set()).update(re.findall(r'"(\w+)":', facts))
    assert Tell.__struct_fields__ == ("event", "call", "facts")
    assert {"outcome", "alert", "breaker"} <= told.keys()
    assert listed.keys() == told.keys()
    assert [name for name, facts in told.items() if not facts <= {*listed[name]}] == []


@pytest.fixture
def key(monkeypatch):
    monkeypatch.setenv("SETTLED_KEY", KEY)


def test_keeping_secrets_out(key, tmp_path):
    body = {"-> dict: ...": '-> dict: return {"receipt": "R-1234567"}'}
    with run("docs/how-to/secrets.md", 0, replace=body)["guard"] as guard:
        pay = guard.tools["pay"]
        assert pay("7", {"number": "4111-2222"}) == {"receipt": "R-1234567"}
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert kept
    assert not [secret for secret in (b"4111-2222", b"R-1234567") if secret in kept]
    with settled.Guard("sqlite:///plain.db") as guard, pytest.raises(settled.DeclarationError, match="encryption_key"):
        guard.tool(effect="write", redact=["result.receipt"])(pay.function)

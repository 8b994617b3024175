"""One life of an agent's process: it works through three mails, and may be killed after one of them is sent.

``python -m tests.adapters.life FRAMEWORK HOME guarded|bare [turns]``. The model is asked anew after each
death and decides by the history it is shown: it mints new call ids, and words its mails anew.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import sys
from pathlib import Path
from uuid import uuid4

import settled
from tests.adapters.script import Answer, Call

WANTED = [["ann", "bob"], ["cid"]]
"""The mails of each message of the model."""
TASK = "mail ann, bob and cid"
TURNS = ("mail ann", "now another one", "and another")
"""Of a life in turns: each wants the same mail."""


class Mind:
    """Asks for what the history holds no answer of."""

    def reply(self, history: list) -> list[Call] | str:
        asked = {call.id: call.arguments["to"] for item in history if isinstance(item, list) for call in item}
        done = {asked[item.id] for item in history if isinstance(item, Answer) and not again(item.text)}
        for message in WANTED:
            left = [to for to in message if to not in done]
            if left:
                return [Call("send_mail", {"to": to, "text": f"Dear {to} {uuid4()}"}, str(uuid4())) for to in left]
        return "done"


class TurnMind:
    """Asks in each turn for the same mail, under the same id."""

    def __init__(self, ids: bool) -> None:
        self.ids = ids

    def reply(self, history: list) -> list[Call] | str:
        said = [at for at, item in enumerate(history) if item in TURNS]
        answered = any(isinstance(item, Answer) for item in history[said[-1] :])
        call_id = f"c{len(said)}" if self.ids else "call_0"
        return "done" if answered else [Call("send_mail", {"to": "ann", "text": "hi"}, call_id)]


def again(text: str) -> bool:
    """Whether the model was only told what it had done before."""
    try:
        return json.loads(text)["next"] == "ask_again"
    except (ValueError, KeyError, TypeError):
        return False


def mailer(home: Path):
    def send_mail(to: str, text: str) -> str:
        """Send a mail."""
        with (home / "sent").open("a") as file:
            file.write(f"{to}\n")
            file.flush()
            os.fsync(file.fileno())
        number = (home / "sent").read_text().split().count(to)
        deadly = next((path for path in (home / f"kill-{to}", home / f"kill-{to}-{number}") if path.exists()), home)
        if deadly != home:
            deadly.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return f"sent to {to}"

    return send_mail


def main(framework: str, home: Path, *, guarded: bool, turns: bool) -> None:
    chat = importlib.import_module(f"tests.adapters.chat_{framework}").Chat
    guard = settled.Guard(f"sqlite:///{home}/agent.db") if guarded else None

    def was_sent(call: settled.Call) -> settled.Happened | settled.NotHappened:
        sent = (home / "sent").read_text().split() if (home / "sent").exists() else []
        to = call.arguments["to"]
        number = sum(1 for path in home.glob("turn-*")) + 1 if turns else 1  # each turn sends it once more
        return settled.Happened(f"sent to {to}") if sent.count(to) >= number else settled.NotHappened()

    options = settled.tool_options(effect="write", identity=("to",), probe=was_sent, max_request_lifetime=0)
    effects = {"send_mail": options}
    more = {"kind": "ainvoke"} if framework == "langchain" else {}
    mind = TurnMind(ids=framework == "openai_agents") if turns else Mind()
    one = chat(home, [mailer(home)], mind, guard=guard, effects=effects, **more)
    for at, text in enumerate(TURNS if turns else [TASK]):
        done = home / f"turn-{at}"
        if not done.exists():
            asyncio.run(one.start_again(text))
            done.touch()
    if guard is not None:
        guard.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), guarded=sys.argv[3] == "guarded", turns="turns" in sys.argv)

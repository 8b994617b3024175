"""A mail whose answer is lost, and a task that is handed on to another agent once more, in other words."""

import json

from tests.adapters.contract import mail
from tests.adapters.script import Answer, Script

TASKS = ("mail ann", "try once more to mail ann")


def losing(book):
    """A tool whose mail is sent, and whose answer is lost."""

    def send_mail(to: str, text: str = "hi") -> str:
        """Send a mail."""
        book.note(to)
        raise TimeoutError("no answer")

    return send_mail


class Worker(Script):
    """Mails ann, whatever it is told, and says what it was answered."""

    def __init__(self):
        super().__init__([])

    def reply(self, history):
        self.shown.append(history)
        answered = isinstance(history[-1], Answer)
        return history[-1].text if answered else [mail("ann", f"w{len(self.shown)}", text=f"{len(self.shown)}")]


def check(answers, book):
    """The second worker is told of the first one's mail, and sends none."""
    said = [json.loads(each) for each in answers]
    assert [each["status"] for each in said] == ["unknown", "rejected"]
    assert [each["status"] for each in said[1]["earlier_calls"]] == ["unknown"]
    assert book.lines == ["ann"]

"""A mailbox in which letters are drafted, sent and thrown away."""

import settled


class Mailbox:
    def __init__(self):
        self.drafts, self.sent, self.log = {}, [], []
        self.trouble = {}
        """Name of a tool -> what it raises next, once."""

    def act(self, name, *what):
        self.log.append((name, *what))
        trouble = self.trouble.pop(name, None)
        if trouble is not None:
            raise trouble

    def names(self):
        return [entry[0] for entry in self.log]


def mail_of(guard, box, **options):
    """Declare a letter that is drafted first, and taken back where it is undone."""

    @guard.tool(effect="write", retry=settled.Backoff(base=0.001), breaker=None)
    def write(to: str, text: str) -> str:
        box.act("write", to)
        name = f"draft-{len(box.drafts)}"
        box.drafts[name] = (to, text)
        return name

    @guard.tool(effect="write", breaker=None, retry=settled.Backoff(base=0.001))
    def throw_away(draft: str) -> None:
        box.act("throw_away", draft)
        box.drafts.pop(draft)

    @guard.tool(effect="write", breaker=None)
    def take_back(letter: str) -> None:
        box.act("take_back", letter)
        box.sent.remove(letter)

    def send(draft: str, to: str) -> str:
        box.act("send", draft)
        letter = f"{to}: {box.drafts[draft][1]}"
        box.sent.append(letter)
        return letter

    declared = {"effect": "write", "draft": write, "confirm": send, "discard": throw_away, "breaker": None}
    declared |= {"compensate": take_back, "undo": lambda call, result: {"letter": result}}

    @guard.tool(**{**declared, "retry": settled.Backoff(base=0.001), **options})
    def mail(to: str, text: str) -> str:
        """Send a letter."""
        raise AssertionError("the tool's own function is never called")

    return mail

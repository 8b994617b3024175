"""A run that is undone: a refund in three steps, of which the last one fails.

python examples/refund_saga.py

The money goes back to the card, the voucher is cancelled, and then the mail cannot be written. What was done is undone,
the last first; that the card's bank refuses to take the money back is left to a person. All of it in one journal in
memory; with a file (``sqlite:///refund.db``) any process may be killed in between, and the next one goes on.
"""

import settled
from settled.api.people.queue import waiting
from settled.api.people.story import story

guard = settled.Guard("memory://")
BANK = {"credits": {}, "closed": {"card 2"}}
VOUCHERS = {"v-1": "valid", "v-2": "valid", "v-3": "valid"}


@guard.tool(effect="write")
def take_back(credit: str) -> str:
    """Undo a refund."""
    card = BANK["credits"][credit]["card"]
    if card in BANK["closed"]:
        raise settled.NotExecuted(f"{card} is closed")
    del BANK["credits"][credit]
    return "taken back"


@guard.tool(effect="write", compensate=take_back)
def refund(card: str, amount: int) -> dict[str, str]:
    """Give money back."""
    credit = f"credit-{len(BANK['credits']) + 1}"
    BANK["credits"][credit] = {"card": card, "amount": amount}
    return {"credit": credit}


@guard.tool(effect="idempotent")
def make_valid(voucher: str) -> None:
    """Undo the cancelling of a voucher."""
    VOUCHERS[voucher] = "valid"


@guard.tool(effect="idempotent", compensate=make_valid)
def cancel_voucher(voucher: str) -> None:
    """Cancel a voucher."""
    VOUCHERS[voucher] = "cancelled"


@guard.tool(effect="write", irreversible=True, precheck=lambda to: "@" in to)
def write_mail(to: str) -> None:
    """Write to the customer; nothing undoes that, so it is looked at first."""


def give_back(case: str, *, card: str, voucher: str, to: str) -> None:
    """Work on one case; an error undoes what was done."""
    with guard.run(case, on_error="compensate"):
        refund(card, 40)
        cancel_voucher(voucher)
        write_mail(to)


CASES = (
    {"card": "card 1", "voucher": "v-1", "to": "ann@example.org"},
    {"card": "card 1", "voucher": "v-2", "to": "?"},
    {"card": "card 2", "voucher": "v-3", "to": "?"},
)


def main() -> None:
    """Play three cases, and tell what became of each."""
    for number, case in enumerate(CASES, 1):
        name = f"case-{number}"
        try:
            give_back(name, **case)
        except settled.CallFailed as error:
            print(f"{name} fails: {error}")
        record = guard.journal.run("", name)
        print(f"{name} is {record.state}; credits: {sorted(BANK['credits'])}, voucher: {VOUCHERS[case['voucher']]}")
        for line in story(guard, record):
            print(f"    {line.words}")
    for call in waiting(guard.journal):
        print(f"left for a person: {call.tool} of {call.scope.rpartition(':')[2]}, {call.reason}: {call.note}")


if __name__ == "__main__":
    main()

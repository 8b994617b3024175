"""A run that is undone: a refund in three steps, of which the last one fails.

python examples/refund_saga.py

The money goes back to the card, the voucher is cancelled, and then the mail cannot be written. What was done is undone,
the last first; that the card's bank refuses to take the money back is left to a person. All of it in one journal in
memory; with a file (``sqlite:///refund.db``) any process may be killed in between, and the next one goes on.
"""

import settled

guard = settled.Guard("memory://")
BANK = {"credits": {}, "closed": {"card 2"}}
VOUCHERS = {"v-1": "valid", "v-2": "valid", "v-3": "valid"}


@guard.tool(effect="write")
def take_back(credit: str) -> str:
    """Undo a refund."""
    print(f"    {credit} is to be taken back")
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
    print(f"    {voucher} is made valid again")
    VOUCHERS[voucher] = "valid"


@guard.tool(effect="idempotent", compensate=make_valid)
def cancel_voucher(voucher: str) -> None:
    """Cancel a voucher."""
    VOUCHERS[voucher] = "cancelled"


@guard.tool(effect="write", irreversible=True, precheck=lambda to: "@" in to)
def write_mail(to: str) -> None:
    """Write to the customer; nothing undoes that, so it is looked at first."""


def give_back(run: settled.Run, *, card: str, voucher: str, to: str) -> None:
    """Work on one case; an error undoes what was done."""
    with run:
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
        run = guard.run(f"case-{number}", on_error="compensate")
        try:
            give_back(run, **case)
        except settled.CallFailed as error:
            print(f"{run.run_id} fails: {error}")
            for note in getattr(error, "__notes__", ()):  # what is left for a person, and the command that lists it
                print(f"    {note}")
        voucher = VOUCHERS[case["voucher"]]
        print(f"{run.run_id} is {run.status}; credits: {sorted(BANK['credits'])}, voucher: {voucher}")


if __name__ == "__main__":
    main()

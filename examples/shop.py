"""The tools of a support agent, as plain functions: what the examples guard. They know nothing of settled."""

from __future__ import annotations

from pathlib import Path

LEDGER = Path("refunds.log")
"""Where the shop writes down what it has paid back: the truth, whatever the agent believes."""


def find_order(order_id: str) -> str:
    """Look an order up."""
    return f"order {order_id}: one lamp, 40 EUR, arrived broken"


def stock_of(article: str) -> int:
    """Tell how many of an article are there."""
    return len(article)


def refund(order_id: str, amount: int) -> str:
    """Pay money back."""
    with LEDGER.open("a") as file:
        file.write(f"{order_id} {amount}\n")
    return f"paid back {amount} EUR for order {order_id}"


def send_mail(to: str, text: str) -> str:
    """Send a mail to a customer."""
    return f"sent to {to}: {text}"


def close_ticket(ticket_id: str) -> str:
    """Close the ticket."""
    return f"closed {ticket_id}"


TOOLS = [find_order, stock_of, refund, send_mail, close_ticket]


def refunds() -> list[str]:
    """What was really paid back."""
    return LEDGER.read_text().splitlines() if LEDGER.exists() else []

"""Kafka: kafka-python and aiokafka; and librdkafka's full queue, which confluent-kafka tells by a plain BufferError."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.faults import look
from settled.core.faults.python import of_bug
from settled.core.faults.rules import Rule, Situation, local, retryable, rules, unwritable

if TYPE_CHECKING:
    from settled.core.model import Fault


def of_buffer(error: BaseException, situation: Situation) -> Fault:
    """Read a BufferError: what found no room in the queue was not taken into it."""
    return local("queue_full") if look.text(error) == "Local: Queue full" else of_bug(error, situation)


RULES = {
    **rules(
        *("kafka", "aiokafka"),
        final={
            "NoBrokersAvailable": retryable("connect_failed"),
            "MessageSizeTooLargeError": unwritable("request_too_large"),
        },
    ),
    ("builtins", "BufferError"): Rule(of_buffer, wraps=True, bug=True),
}

"""Kafka: kafka-python and aiokafka.

librdkafka's full queue, a BufferError of confluent-kafka's, proves nothing: mostly it is full of what the same call has
given it before.
"""

from __future__ import annotations

from settled.core.faults.rules import retryable, rules, unwritable

RULES = rules(
    *("kafka", "aiokafka"),
    final={
        "NoBrokersAvailable": retryable("connect_failed"),
        "MessageSizeTooLargeError": unwritable("request_too_large"),
    },
)

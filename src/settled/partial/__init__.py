"""Reading the answers of batches, item by item: what a tool declares as ``partial=``.

Ready ones: ``http_207``, ``elasticsearch_bulk``, ``dynamodb_batch_write``, ``sqs_batch``, ``graphql`` (and
``graphql_by``). One's own is a function of the answer and the items that returns an outcome for each item.
"""

from settled.partial.aws import dynamodb_batch_write, sqs_batch
from settled.partial.elasticsearch import elasticsearch_bulk
from settled.partial.graphql import graphql, graphql_by
from settled.partial.http import http_207
from settled.partial.outcome import Item, Outcome, Reader, done, failed, not_done, unknown

__all__ = [
    "Item",
    "Outcome",
    "Reader",
    "done",
    "dynamodb_batch_write",
    "elasticsearch_bulk",
    "failed",
    "graphql",
    "graphql_by",
    "http_207",
    "not_done",
    "sqs_batch",
    "unknown",
]

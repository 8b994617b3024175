"""DynamoDB's ``BatchWriteItem`` and the batches of SQS and SNS, as boto3 answers them.

Sources: the API references of BatchWriteItem (``UnprocessedItems`` come in the form of the request) and of
SendMessageBatch (``Successful`` and ``Failed``, each with the ``Id`` of its entry).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from settled.core.faults.codes import THROTTLED
from settled.partial.outcome import AMBIGUOUS, Reader, done, failed, name_in, not_done, place, unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.partial.outcome import Outcome

_KMS_THROTTLED = "KmsThrottled"


def _read_dynamodb(answer: Any, items: Sequence[Any]) -> Sequence[Outcome]:
    left = answer.get("UnprocessedItems") if isinstance(answer, Mapping) else None
    if not isinstance(left, Mapping) or not all(isinstance(each, list) for each in left.values()):
        return [AMBIGUOUS] * len(items)
    requests = [request for each in left.values() for request in each]
    outcomes: list[Outcome] = [done()] * len(items)
    for request in requests:
        at = next((n for n, item in enumerate(items) if outcomes[n].part == "done" and _is(item, request)), None)
        if at is None:  # something else was left undone than was asked: nothing of this answer can be relied on
            return [AMBIGUOUS] * len(items)
        outcomes[at] = not_done("UnprocessedItems", throttled=True)
    return outcomes


def _is(item: Any, request: Any) -> bool:
    """Whether an item is this write request: it itself, or what it puts or deletes."""
    if item == request:
        return True
    inner = [value for value in request.values() if isinstance(value, Mapping)] if isinstance(request, Mapping) else []
    return any(item == value for each in inner for value in each.values())


def _merge_dynamodb(first: Any, values: Sequence[Any], items: Sequence[Any]) -> Any:
    del values, items
    return {**first, "UnprocessedItems": {}}


def _read_sqs(answer: Any, items: Sequence[Any]) -> Sequence[Outcome]:
    done_ones = answer.get("Successful", []) if isinstance(answer, Mapping) else None
    refused = answer.get("Failed", []) if isinstance(answer, Mapping) else None
    if not isinstance(done_ones, list) or not isinstance(refused, list):
        return [AMBIGUOUS] * len(items)
    entries = [(name_in(entry, "Id"), done(entry)) for entry in done_ones]
    entries += [(name_in(entry, "Id"), _refused(entry)) for entry in refused]
    if any(name is None for name, _ in entries):
        return [AMBIGUOUS] * len(items)
    asked = [name_in(item, "Id", "id") for item in items]
    return place([name if name is not None else str(n) for n, name in enumerate(asked)], entries)


def _refused(entry: Any) -> Outcome:
    code = str(entry.get("Code", "")) if isinstance(entry, Mapping) else ""
    if code in THROTTLED or code.rpartition(".")[2] in (*THROTTLED, _KMS_THROTTLED):
        return not_done(code, throttled=True)
    ours = isinstance(entry, Mapping) and entry.get("SenderFault") is True
    return failed(code) if ours else unknown(code or "Failed")


def _merge_sqs(first: Any, values: Sequence[Any], items: Sequence[Any]) -> Any:
    del items
    return {**first, "Successful": list(values), "Failed": []}


dynamodb_batch_write = Reader(_read_dynamodb, _merge_dynamodb)
sqs_batch = Reader(_read_sqs, _merge_sqs)

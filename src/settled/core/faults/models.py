"""openai and anthropic: a lost answer does no harm but costs its tokens twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.faults import look
from settled.core.faults.bodies import codes, read
from settled.core.faults.carried import by_answer, carried
from settled.core.faults.codes import of_codes
from settled.core.faults.rules import Situation, ambiguous, invalid, rules, weakened

if TYPE_CHECKING:
    from settled.core.model import Fault


def in_stream(error: BaseException, situation: Situation) -> Fault | None:
    """Read an APIError without a status: an error that came in a stream, told by its code alone."""
    named = [code for name in ("code", "type") if isinstance(code := look.attr(error, name), str)]
    fault = of_codes(named + codes(read(look.attr(error, "body"))), doubtful=situation.doubtful)
    return None if fault is None else weakened(fault)


def of_status(error: BaseException, situation: Situation) -> Fault | None:
    """Read an answer by its status; one that began well, and then told of an error in its stream, may be done."""
    said, answer = by_answer(error, situation), carried(error)
    return weakened(said) if said is not None and answer is not None and answer.successful else said


RULES = rules(
    *("openai", "anthropic"),
    final={
        "APIStatusError": of_status,
        "APIResponseValidationError": ambiguous("malformed_answer", uncertain=True),
        "LengthFinishReasonError": invalid("output_cut"),
        "ContentFilterFinishReasonError": invalid("content_filter"),
        "APIError": in_stream,
    },
    wraps={"APITimeoutError": ambiguous("timeout"), "APIConnectionError": ambiguous("connection_error")},
    default=ambiguous("api_error"),
)

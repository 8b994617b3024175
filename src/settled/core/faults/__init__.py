"""Why an attempt failed, and what that proves about its effect: one file for each source of errors.

``classify`` says how exceptions are walked; ``table`` joins the sources; no library is imported for them.
"""

from settled.core.faults.answers import classify_response
from settled.core.faults.classify import classify
from settled.core.faults.mcp import classify_mcp
from settled.core.faults.python import invalid_arguments, unusable_result
from settled.core.faults.retry_after import retry_after

__all__ = [
    "classify",
    "classify_mcp",
    "classify_response",
    "invalid_arguments",
    "retry_after",
    "unusable_result",
]

"""MCP results and JSON-RPC answers."""

from types import SimpleNamespace

import pytest

from settled.core.faults import classify, classify_mcp
from settled.core.model import Evidence, FaultClass
from tests.core.faults.fakes import made


def failed(*content, **more):
    return {"content": list(content), "isError": True, **more}


def text(words):
    return {"type": "text", "text": words}


def test_a_result_without_an_error_is_a_success():
    assert classify_mcp({}) is None
    assert classify_mcp({"content": [], "isError": False}) is None
    assert classify_mcp({"content": [text("MCP error -32602: not really")], "isError": False}) is None
    assert classify_mcp({"jsonrpc": "2.0", "id": 1, "result": {"content": []}}) is None


def test_an_answer_is_read_through_its_envelope():
    fault = classify_mcp({"jsonrpc": "2.0", "id": 1, "result": failed(text("no"))})
    assert (fault.kind, fault.evidence, fault.message) == (FaultClass.UNKNOWN, Evidence.MAYBE, "no")


@pytest.mark.parametrize(
    ("code", "kind", "evidence"),
    [
        (-32602, FaultClass.INVALID, Evidence.NONE),
        (-32601, FaultClass.INVALID, Evidence.NONE),
        (-32603, FaultClass.UNKNOWN, Evidence.MAYBE),
        (-32001, FaultClass.UNKNOWN, Evidence.MAYBE),
        (-32000, FaultClass.UNKNOWN, Evidence.MAYBE),
        (-32700, FaultClass.PERMANENT, Evidence.NONE),
        (-32600, FaultClass.PERMANENT, Evidence.NONE),
        (-32021, FaultClass.PERMANENT, Evidence.NONE),
        (-32042, FaultClass.PERMANENT, Evidence.NONE),
        (-32800, FaultClass.CANCELLED, Evidence.MAYBE),
        (42, FaultClass.UNKNOWN, Evidence.MAYBE),
    ],
)
def test_json_rpc_codes(code, kind, evidence):
    fault = classify_mcp({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "words"}})
    assert (fault.kind, fault.evidence, fault.message) == (kind, evidence, "words")


def test_the_code_in_the_text_must_stand_at_its_beginning():
    assert classify_mcp(failed(text("MCP error -32602: no"))).kind is FaultClass.INVALID
    assert classify_mcp(failed(text("the server said: MCP error -32602: no"))).kind is FaultClass.UNKNOWN
    assert classify_mcp(failed(text("MCP error -32001: Request timed out"))).kind is FaultClass.UNKNOWN
    assert classify_mcp(failed(text("MCP error -326020"))).kind is FaultClass.UNKNOWN


def test_only_the_first_block_speaks():
    assert classify_mcp(failed(text("paid"), text("MCP error -32602: no"))).kind is FaultClass.UNKNOWN


@pytest.mark.parametrize("value", [None, 3, "text", [], [1]])
def test_what_is_no_result_is_ambiguous(value):
    assert classify_mcp(value).evidence is Evidence.MAYBE


def told(result, **more):
    fault = classify_mcp(result, **more)
    return fault.code, fault.message, fault.uncertain


def test_code_and_text_are_kept():
    wrong = "Error executing tool pay: 2 validation errors for payArguments"
    assert told(failed(text(wrong))) == ("mcp_invalid_params", wrong, False)
    assert told(failed(text("Unknown tool: pay")), tool="pay") == ("mcp_unknown_tool", "Unknown tool: pay", False)
    assert told(failed(text("MCP error -32601: no"))) == ("mcp_method_not_found", "MCP error -32601: no", False)
    assert told(failed(text("no"))) == ("mcp_is_error", "no", False)
    assert told(failed({"type": "text", "text": 5})) == ("mcp_is_error", "", False)
    assert told([]) == ("mcp_malformed", "", True)


def test_a_code_without_a_text():
    assert classify_mcp({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603}}).message == ""
    raised = made("mcp.shared.exceptions.McpError", "words", error=SimpleNamespace(code=-32602))
    assert (classify(raised).code, classify(raised).message) == ("mcp_invalid_params", "McpError: words")


def test_the_arguments_must_be_those_of_the_tool_that_failed():
    other = failed(text("Error executing tool pay: 1 validation error for bookArguments"))
    assert classify_mcp(other).kind is FaultClass.UNKNOWN
    assert classify_mcp(other, tool="pay").kind is FaultClass.UNKNOWN


def test_the_python_sdks_spelling():
    assert classify_mcp({"content": [text("no")], "is_error": True}).code == "mcp_is_error"
    assert classify_mcp({"content": [text("no")], "is_error": False}) is None
    assert classify_mcp({"content": [text("no")], "isError": False, "is_error": True}) is None


def test_a_result_that_has_a_field_of_that_name_is_no_envelope():
    assert classify_mcp({"content": [], "isError": True, "result": {"content": []}}).code == "mcp_is_error"
    assert classify_mcp({"jsonrpc": "2.0", "result": "odd", "isError": True}).code == "mcp_is_error"

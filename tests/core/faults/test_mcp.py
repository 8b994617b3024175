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


def kind_of(result, **more):
    fault = classify_mcp(result, **more)
    return None if fault is None else fault.kind


def told(result, **more):
    fault = classify_mcp(result, **more)
    return None if fault is None else (fault.code, fault.message, fault.uncertain)


def test_a_result_without_an_error_is_a_success():
    assert classify_mcp({}) is None
    assert classify_mcp({"content": [], "isError": False}) is None
    assert classify_mcp({"content": [text("MCP error -32602: not really")], "isError": False}) is None
    assert classify_mcp({"jsonrpc": "2.0", "id": 1, "result": {"content": []}}) is None


OF_FASTMCP = "1 validation error for call[pay]\namount\n  Missing required argument [type=missing_argument]"


@pytest.mark.parametrize(
    ("words", "tool", "kind"),
    [
        (OF_FASTMCP, "pay", FaultClass.INVALID),
        (OF_FASTMCP, None, FaultClass.INVALID),
        (OF_FASTMCP.replace("1 validation error", "2 validation errors"), "pay", FaultClass.INVALID),
        (OF_FASTMCP, "refund", FaultClass.UNKNOWN),  # it calls another one
        (f"Error calling tool 'pay': {OF_FASTMCP}", "pay", FaultClass.UNKNOWN),  # the tool itself raised it
        ("1 validation error for Receipt\ntotal", "pay", FaultClass.UNKNOWN),
        ("Error executing tool pay: 1 validation error for refundArguments\n", "pay", FaultClass.UNKNOWN),
        ("Unknown tool: 'pay'", "pay", FaultClass.INVALID),
        ("Unknown tool: 'refund'", "pay", FaultClass.UNKNOWN),
        ("Unknown tool: 'pay'", None, FaultClass.UNKNOWN),
    ],
)
def test_how_fastmcp_says_that_a_tool_was_not_run(words, tool, kind):
    assert kind_of(failed(text(words)), tool=tool) is kind
    if tool is None:
        assert classify(made("fastmcp.exceptions.ToolError", words)).kind is kind


def test_an_answer_is_read_through_its_envelope():
    result = {"jsonrpc": "2.0", "id": 1, "result": failed(text("no"))}
    assert told(result) == ("mcp_is_error", "no", False)
    assert kind_of(result) is FaultClass.UNKNOWN


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
    assert kind_of(failed(text("MCP error -32602: no"))) is FaultClass.INVALID
    assert kind_of(failed(text("the server said: MCP error -32602: no"))) is FaultClass.UNKNOWN
    assert kind_of(failed(text("MCP error -32001: Request timed out"))) is FaultClass.UNKNOWN
    assert kind_of(failed(text("MCP error -326020"))) is FaultClass.UNKNOWN
    assert kind_of(failed(text("MCP error -32602"))) is FaultClass.INVALID
    assert kind_of(failed(text("MCP error -32602 came from the bank, after it was charged"))) is FaultClass.UNKNOWN


OF_THE_OUTPUT = (
    "Output validation error: Tool pay has an output schema but no structured content was provided",
    "Output validation error: Invalid structured content for tool pay: expected string",
    "Tool pay has an output schema but no structured content was provided",
    "Structured content does not match the tool's output schema: data/id must be string",
    "Tool pay has an output schema but did not return structured content",
)


@pytest.mark.parametrize("words", OF_THE_OUTPUT)
@pytest.mark.parametrize("code", [-32602, -32600])
def test_a_refusal_of_what_a_tool_gave_does_not_say_that_it_never_ran(code, words):
    """The TypeScript SDK's own sentences, of its server and of its client: wrong arguments have the same code."""
    envelope = {"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": words}}
    raised = made("mcp.shared.exceptions.McpError", words, error=SimpleNamespace(code=code, message=words))
    faults = [classify_mcp(envelope), classify(raised)]
    if code == -32602:
        faults.append(classify_mcp(failed(text(f"MCP error {code}: {words}")), tool="pay"))
    for fault in faults:
        assert (fault.kind, fault.evidence, fault.code) == ("unknown", "maybe", "mcp_invalid_output")


def test_only_the_first_block_speaks():
    assert kind_of(failed(text("paid"), text("MCP error -32602: no"))) is FaultClass.UNKNOWN


@pytest.mark.parametrize("value", [None, 3, "text", [], [1]])
def test_what_is_no_result_is_ambiguous(value):
    assert classify_mcp(value).evidence is Evidence.MAYBE


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
    assert kind_of(other) is FaultClass.UNKNOWN
    assert kind_of(other, tool="pay") is FaultClass.UNKNOWN


def test_the_typescript_sdks_sentence_without_its_code():
    wrong = failed(text("Input validation error: Invalid arguments for tool pay: amount is required"))
    assert kind_of(wrong, tool="pay") is FaultClass.INVALID
    assert kind_of(wrong, tool="book") is kind_of(wrong) is FaultClass.UNKNOWN


def test_the_python_sdks_spelling():
    assert told({"content": [text("no")], "is_error": True}) == ("mcp_is_error", "no", False)
    assert classify_mcp({"content": [text("no")], "is_error": False}) is None
    assert classify_mcp({"content": [text("no")], "isError": False, "is_error": True}) is None


def test_a_result_that_has_a_field_of_that_name_is_no_envelope():
    assert told({"content": [], "isError": True, "result": {"content": []}}) == ("mcp_is_error", "", False)
    assert told({"jsonrpc": "2.0", "result": "odd", "isError": True}) == ("mcp_is_error", "", False)

"""Recorded answers of real services: class and evidence of each, or why its label does not hold."""

import errno
import json
import ssl

import pytest

from settled.core.faults import classify, classify_mcp, classify_response
from settled.core.model import Evidence, FaultClass
from tests.core.faults.fakes import made
from tests.shared import shared

SAMPLES = [json.loads(line) for line in shared("samples/http_samples.jsonl").read_text().splitlines()]

PROSE = "what is wrong with the arguments stands in prose alone; `classify=` of the tool can read it"
CONFLICT = "a 409 without a code leaves open what was done before; to repeat it is pointless all the same"
READ = "a gateway's failure proves nothing; a tool declared `read` repeats an ambiguous answer anyway"
MEANING = "what a 404 means to this tool is for the tool to say; by itself it is a refusal"
IS_ERROR = "`isError` does not tell run from not run, and its text is prose"
SAYS_SUCCESS = "`isError: false` is a success, whatever the prose says (CASE-041)"

DISAGREE = {
    8: PROSE,
    10: PROSE,
    11: PROSE,
    12: CONFLICT,
    13: CONFLICT,
    14: "that the workflow was disabled already stands in prose; in doubt it is not taken for proof, so it is probed",
    16: MEANING,
    18: MEANING,
    19: READ,
    20: READ,
    46: "a 500 that is an overload only by its prose; a code (`overloaded_error`) would be believed",
    47: "the stream had begun, so the request was being executed when the overload came",
    65: IS_ERROR,
    66: IS_ERROR,
    69: IS_ERROR,
    70: IS_ERROR,
    71: SAYS_SUCCESS,
    72: SAYS_SUCCESS,
}

CLASSES = {
    "retryable": FaultClass.RETRYABLE,
    "permanent": FaultClass.PERMANENT,
    "partial": FaultClass.PARTIAL,
    "unknown": FaultClass.UNKNOWN,
    "invalid_model_output": FaultClass.INVALID,
}
EFFECTS = {
    "no": {Evidence.NONE},
    "yes": {Evidence.MAYBE, Evidence.DONE, Evidence.SOME},
    "partial": {Evidence.SOME},
    "unknown": {Evidence.MAYBE},
}
TRANSPORT = {
    "ConnectTimeout": made("requests.exceptions.ConnectTimeout"),
    "ConnectionRefused": ConnectionRefusedError(errno.ECONNREFUSED, "refused"),
    "ReadTimeout": made("requests.exceptions.ReadTimeout"),
    "TLS certificate invalid": ssl.SSLCertVerificationError(1, "certificate verify failed"),
}


def read(sample, *, doubtful):
    if sample["api"] == "transport":
        return classify(TRANSPORT[sample["body"]], doubtful=doubtful)
    if sample["status"] is None:
        return classify_mcp(json.loads(sample["body"]))
    return classify_response(
        sample["status"], sample["headers"], sample["body"], method=sample["method"], doubtful=doubtful
    )


def agrees(sample):
    """Compare with the label. Those that speak of an earlier attempt are read as a repeat after doubt."""
    expected = sample["expected_class"]
    if expected == "success" or sample["effect_possible"] == "unknown":
        fault = read(sample, doubtful=True)
        return fault is None or fault.own_success
    fault = read(sample, doubtful=False)
    return (
        fault is not None and fault.kind is CLASSES[expected] and fault.evidence in EFFECTS[sample["effect_possible"]]
    )


@pytest.mark.parametrize("index", range(len(SAMPLES)), ids=lambda index: f"{index}-{SAMPLES[index]['api']}")
def test_sample(index):
    assert agrees(SAMPLES[index]) == (index not in DISAGREE)


def test_all_of_them_are_there():
    assert len(SAMPLES) == 74
    assert set(DISAGREE) < set(range(len(SAMPLES)))


def test_where_we_disagree_nothing_is_called_proved_that_the_label_calls_possible():
    for index, sample in enumerate(SAMPLES):
        fault = read(sample, doubtful=False)
        if fault is not None and fault.evidence is Evidence.NONE and sample["expected_class"] != "success":
            assert sample["effect_possible"] in {"no", "unknown"}, index


def test_the_waits_that_they_ask_for():
    asked = [(sample["retry_after_s"], read(sample, doubtful=False)) for sample in SAMPLES if "retry_after_s" in sample]
    assert len(asked) == 2
    assert all(fault.retry_after == seconds and fault.throttled for seconds, fault in asked)

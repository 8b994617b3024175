"""The codes of faults are kept in journals: they are the same in every release. So is what each fault says besides.

codes.txt holds a line for each row of the other tests: its name, the code, the flags that are set.
"""

import errno
import json
from pathlib import Path

from settled.core.faults import classify, classify_response, rules, stdlib
from settled.core.faults.rules import Rule, ambiguous, refused
from tests.core.faults.test_answers import FAULTS, GRAPHQL, MULTI_STATUS
from tests.core.faults.test_table import SOURCES

FLAGS = ("throttled", "local", "own_success", "in_progress", "refresh", "uncertain", "gate")


def line(name, fault):
    return " ".join([name, fault.code, *(flag for flag in FLAGS if getattr(fault, flag) is True)])


def of_errors():
    for source, params in SOURCES.items():
        for param in params:
            error, _, situation = param.values
            yield line(f"{source}-{param.id}", classify(error, **situation))


def of_answers():
    bodies = {f"answer-{name}": (200, body) for name, (body, _) in FAULTS.items()}
    bodies |= {f"graphql-{place}": (200, body) for place, (body, _) in enumerate(GRAPHQL)}
    bodies |= {f"multi-status-{place}": (207, body) for place, (body, _, words) in enumerate(MULTI_STATUS) if words}
    for name, (status, body) in bodies.items():
        fault = classify_response(status, {}, body if isinstance(body, str) else json.dumps(body))
        yield line(name, fault)


def test_codes_and_flags_are_stable():
    kept = Path(__file__).with_name("codes.txt").read_text().splitlines()
    assert [*of_errors(), *of_answers()] == kept


def test_a_table_is_made_under_each_name_of_a_library():
    one, two, default = refused("one"), ambiguous("two"), ambiguous("default")
    table = rules.rules("lib", "fork", final={"One": one}, wraps={"Two": two}, default=default)
    assert table == {
        (root, name): rule
        for root in ("lib", "fork")
        for name, rule in {"One": Rule(one, default=default), "Two": Rule(two, wraps=True, default=default)}.items()
    }
    assert rules.rules("lib", final={"One": one}) == {("lib", "One"): Rule(one)}


def test_named_errors_of_the_system_are_read_without_their_number():
    def code_of(number, error):
        fault = stdlib.named(number)["builtins", type(error).__qualname__].read(error, rules.Situation(doubtful=True))
        return fault and (fault.code, fault.own_success)

    assert [*stdlib.named(errno.ECONNREFUSED)] == [("builtins", "ConnectionRefusedError")]
    assert code_of(errno.ECONNREFUSED, ConnectionRefusedError()) == ("connect_refused", False)
    assert code_of(errno.ECONNREFUSED, ConnectionRefusedError(errno.ECONNRESET, "")) == ("connection_reset", False)
    assert code_of(errno.EEXIST, FileExistsError()) == ("eexist", True)

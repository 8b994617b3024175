"""What one answer says of each item, where its order, its shape or its status says otherwise than it seems."""

import itertools

import pytest

from settled.partial import graphql, http_207


def read(reader, answer, items):
    return [str(outcome.part) for outcome in reader(answer, items)]


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("form", [int, str])
def test_answers_that_are_named_by_numbers_come_in_any_order(first, form):
    """As those of Microsoft Graph's batches do, for requests that the tool itself has numbered."""
    answers = [{"id": form(first + n), "status": status} for n, status in enumerate((201, 400, 500))]
    items = [{"title": "a"}, {"title": "b"}, {"title": "c"}]
    for order in itertools.permutations(answers):
        assert read(http_207, {"responses": list(order)}, items) == ["done", "failed", "unknown"]
    far = [{**answer, "id": form(70 + n)} for n, answer in enumerate(answers)]
    assert read(http_207, far, items) == ["done", "failed", "unknown"]


def test_a_redirect_of_one_item_is_for_another_place():
    assert read(http_207, [{"status": 302}, {"status": 299}], [1, 2]) == ["unknown", "done"]


REFUSED = [{"field": ["title"], "message": "Throttled", "code": "BLANK"}]
USER_ERRORS = [
    ({"product": None, "userErrors": REFUSED}, "failed"),
    ({"product": None, "clientMutationId": "c", "userErrors": [{"field": None, "message": "words"}]}, "failed"),
    ({"product": {"id": 1}, "userErrors": REFUSED}, "unknown"),  # some of it may have been done
    ({"product": {"id": 1}, "userErrors": []}, "done"),
    ({"product": {"id": 1}, "userErrors": None}, "done"),
    ({"userErrors": ["words"]}, "done"),
    (["userErrors"], "done"),
]


@pytest.mark.parametrize(("payload", "part"), USER_ERRORS)
def test_a_mutation_that_refuses_field_by_field(payload, part):
    assert read(graphql, {"data": {"a": {"id": 1}, "b": payload}}, ["a", "b"]) == ["done", part]

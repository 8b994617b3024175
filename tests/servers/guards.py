"""A guard on each kind of journal."""

import itertools

import pytest

import settled

_numbers = itertools.count(1)


def guard_on(*kinds):
    """Return a fixture: a guard on each of these kinds of journal in turn."""

    @pytest.fixture(params=kinds)
    def guard(request, tmp_path):
        if request.param == "postgres":
            url = request.getfixturevalue("postgres").url()
            made = settled.Guard(url, schema=f"guard_{next(_numbers)}", spill=tmp_path / "spill")
        else:
            made = settled.Guard("memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/agent.db")
        with made:
            yield made

    return guard

"""A page is read in a folder of its own, with a journal as the page names it."""

import pytest

import settled


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def guard(own_folder):
    """What a page that speaks of ``guard`` takes for granted."""
    with settled.Guard("sqlite:///agent.db") as made:
        yield made

"""What goes to the server is cut there into the same words, whatever they are and however many."""

import gc

import pytest

from settled.core.ask import Stands
from settled.core.matching.claim import Claim
from settled.core.values import replace
from settled.journals.redis import line
from settled.journals.redis.cells import note_row
from settled.journals.stored import Errand
from settled.testing.records import begun, ended, make_ask

TEXTS = ["", "\0", "\0\0", "-", "c0", "$3\r\nabc\r\n", "\n", "ä\ud800", "x" * 10, "x" * 100_000]
"""Of every kind: of no length, and what looks like the way in which words are told apart."""


def note(journal, texts):
    """Keep texts in one commit, which looks at as many rows and ranges; return what is there."""
    names = {f"{number:05d}": text for number, text in enumerate(texts)}

    def put(books, _):
        books.see_rows([note_row("kind", name) for name in names])
        for name, text in names.items():
            books.put_note("kind", name, text)

    journal.perform(Errand(put))
    return list(journal.notes("kind").values())


def test_words_of_every_kind(open_journal):
    assert note(open_journal(), TEXTS) == TEXTS


@pytest.mark.parametrize("server", ["valkey"], indirect=True)
@pytest.mark.parametrize("most", [1, 2, 7])
def test_words_in_parts_of_every_size(open_journal, monkeypatch, most):
    monkeypatch.setattr(line, "_MOST_CUT", most)
    assert note(open_journal(), TEXTS) == TEXTS


def test_more_words_than_one_form_cuts(open_journal):
    texts = [str(number) * (number % 3) for number in range(5000)]
    assert note(open_journal(), texts) == texts


@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_an_answer_from_the_record_leaves_no_garbage(open_journal):
    """What holds itself in a circle is freed by the collector alone, which stops everything meanwhile."""
    journal, ask = open_journal(), make_ask()
    ended(journal, begun(journal, ask), b"done")
    again = Claim(replace(ask, operation_id="op_again"))
    assert isinstance(journal.perform(again), Stands)

    def garbage():
        gc.collect()
        for _ in range(20):
            journal.perform(again)
        return gc.collect()

    gc.disable()
    try:
        assert 0 in {garbage() for _ in range(9)}, "what another thread leaves meanwhile is not ours"
    finally:
        gc.enable()

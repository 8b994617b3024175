"""PostgreSQL agrees with memory, whatever is done to both - also where each transaction has to be made twice."""

import itertools
import tempfile

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from settled.core.values import replace
from settled.journals.postgres import PostgresJournal
from settled.journals.postgres.books import PostgresBooks
from settled.journals.postgres.transactions import Transactions
from settled.journals.postgres.trouble import Conflict
from settled.testing.agreement import Agreement

_numbers = itertools.count(1)


class Renumbered(PostgresJournal):
    """Alerts without the gaps that transactions leave which were rolled back."""

    def __init__(self, *args, numbers, **options):
        super().__init__(*args, **options)
        self.numbers = numbers

    def alerts(self, limit=100):
        found = super().alerts(limit)
        self.numbers += [alert.alert_id for alert in found if alert.alert_id not in self.numbers]
        return [replace(alert, alert_id=self.numbers.index(alert.alert_id) + 1) for alert in found]

    def delivered(self, alert_ids):
        self.alerts(10**6)
        super().delivered([self.numbers[number - 1] for number in alert_ids if number <= len(self.numbers)])


def agreement(server):
    """The machine on one server; each example has a schema of its own."""

    class PostgresAgreement(Agreement):
        def __init__(self):
            super().__init__()
            self.schema = f"agreement_{next(_numbers)}"
            self.folder = tempfile.TemporaryDirectory()
            self.numbers = []

        def open_journal(self):
            spill = f"{self.folder.name}/spill"
            return Renumbered(server.url(), schema=self.schema, clock=self.clock, spill=spill, numbers=self.numbers)

        def teardown(self):
            super().teardown()
            self.folder.cleanup()
            with server.connect() as connection:
                connection.execute(f'DROP SCHEMA IF EXISTS "{self.schema}" CASCADE')

    return PostgresAgreement


def chosen(examples, steps, **options):
    health = list(HealthCheck)
    return settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=health, **options
    )


def test_it_agrees(postgres):
    run_state_machine_as_test(agreement(postgres), settings=chosen(20, 40))


def test_it_agrees_when_every_transaction_meets_a_conflict(postgres, monkeypatch):
    """All is done but the commit; then it is rolled back and made once more."""
    end, turns = Transactions._end, itertools.cycle([True, False])

    def rolled_back_first(self, line, books, record):
        if next(turns):
            line.settle()
            raise Conflict
        end(self, line, books, record)

    monkeypatch.setattr(Transactions, "_end", rolled_back_first)
    run_state_machine_as_test(agreement(postgres), settings=chosen(12, 40))


def keep_what_raised(self):
    self.keep()


def alike_to_none(self, scope, lane, tool, identity, entries):  # noqa: PLR0917 - as the one it stands in for
    return ()


def tell_nobody(self, call, kind):
    return None


PLANTED = {"undo": keep_what_raised, "alike": alike_to_none, "alert": tell_nobody}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_disagreement_is_seen(postgres, name, monkeypatch):
    monkeypatch.setattr(PostgresBooks, name, PLANTED[name])
    planted = chosen(500, 40, phases=[Phase.generate], database=None, derandomize=True)
    with pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(agreement(postgres), settings=planted)

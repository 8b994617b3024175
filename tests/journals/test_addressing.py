"""A server's address means what it says: nothing is left out unseen, and no number is taken that cannot work."""

import pytest

from settled.errors import JournalError
from settled.journals.postgres import PostgresJournal
from settled.journals.postgres import address as postgres
from settled.journals.redis import RedisJournal
from settled.journals.redis import address as redis

NOWHERE = {"postgresql://me:secret@127.0.0.1:1/db": PostgresJournal, "redis://me:secret@127.0.0.1:1/0": RedisJournal}


@pytest.mark.parametrize(
    "rest", ["#1", "?pool=2#x", "\n", "?spill=/a\tb", "?spill=a\0", "?spill=a%00", "?spill=", "\ud800"]
)
@pytest.mark.parametrize("address", NOWHERE)
def test_what_would_be_left_out_is_refused(address, rest):
    """``…/db#1`` and ``…/db#2`` would be one journal."""
    reader = postgres if address.startswith("postgresql") else redis
    with pytest.raises(JournalError) as caught:
        reader.read_address(address + rest)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        *("postgresql://me:secret@[::1/db", "redis://me:secret@[::1/0"),
        *("postgresql://me:%zz?secret=x@h/db", "postgresql://me:%zz@h/db?user=x&secret=y@h"),
    ],
)
def test_what_is_no_address_is_refused(address):
    reader = postgres if address.startswith("postgresql") else redis
    with pytest.raises(JournalError, match="is not understood: write") as caught:
        reader.read_address(address)
    assert "secret" not in str(caught.value)


UNFIT = {
    "patience": ["nan", "inf", "-1", "-inf", "1e300", "86401"],
    "pool": ["0", "-1", "100000000"],
    "log_kept": ["nan", "-1", "inf"],
}
CASES = [
    (address, name, value)
    for address, journal in NOWHERE.items()
    for name, values in UNFIT.items()
    if name != "log_kept" or journal is RedisJournal
    for value in values
]


@pytest.mark.parametrize(("address", "name", "value"), CASES)
def test_a_number_that_cannot_work_is_refused(address, name, value, tmp_path):
    journal, read = NOWHERE[address], int if name == "pool" else float
    for attempt in (
        lambda: journal(f"{address}?{name}={value}", spill=tmp_path / "spill"),
        lambda: journal(address, spill=tmp_path / "spill", **{name: read(value)}),
    ):
        with pytest.raises(JournalError, match=f"{name}=.* cannot be"):
            attempt()


def test_what_is_libpqs_stays_as_it_is():
    """It knows no ``+`` for a space, and tells ``%20`` from it."""
    address, options = postgres.read_address(
        "postgresql://h/d?options=-c%20a%3Db&pool=2&application_name=a+b&password=x%20y"
    )
    given = postgres.conninfo_to_dict(address.connect)
    assert [given[name] for name in ("options", "application_name", "password")] == ["-c a=b", "a+b", "x y"]
    assert options == {"pool": 2}

"""The journal's file is damaged: whatever cannot be read is an error, and nothing is made again for it."""

import shutil
from random import Random

import pytest

from settled.errors import JournalError
from tests.waiting import until

ORDERS = [f"order {number}" for number in range(40)]
PAGE = 4096


@pytest.fixture
def filled(shop):
    """Forty calls on record, all in the file itself."""
    at = shop.open()
    for order in ORDERS:
        assert at.send.call(order=order).ok
    at.guard.journal.seal()
    at.guard.journal.compact()
    return at


def damage(path, offset, content):
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def asked(at, order):
    """Return the value, or ``None`` where the journal says that it cannot."""
    try:
        return at.send.options(wait=0.0).call(order=order).unwrap()
    except JournalError:
        return None


@pytest.mark.parametrize("content", [bytes(100), b"\xff" * 100, b"no database at all " * 6])
def test_a_damaged_header_is_refused_at_opening(shop, filled, content):
    filled.guard.close()
    damage(shop.path, 0, content)
    with pytest.raises(JournalError, match=r"not an SQLite database|damaged"):
        shop.open()
    assert shop.effects == ORDERS


def test_a_header_damaged_while_the_file_is_open_lets_nothing_be_made_again(shop, filled):
    damage(shop.path, 0, bytes(100))
    values = [asked(filled, order) for order in [*ORDERS, "new"]]
    assert all(value in (None, f"{order} done") for order, value in zip([*ORDERS, "new"], values, strict=True))
    assert shop.effects in (ORDERS, [*ORDERS, "new"])
    filled.guard.close()
    with pytest.raises(JournalError):
        shop.open()
    assert shop.effects in (ORDERS, [*ORDERS, "new"])


def test_whatever_page_is_damaged_nothing_is_made_again(shop, filled, tmp_path):
    filled.guard.close()
    pages = shop.path.stat().st_size // PAGE
    assert pages > 10
    pristine, dice = tmp_path / "pristine", Random(7)
    pristine.mkdir()
    for path in tmp_path.glob("agent.db*"):
        shutil.copy(path, pristine)
    noticed = 0
    for page in range(1, pages):
        for content in (bytes(PAGE), dice.randbytes(PAGE)):
            for path in pristine.iterdir():
                shutil.copy(path, tmp_path)
            damage(shop.path, page * PAGE, content)
            noticed += all_asked_again(shop)
    assert noticed > pages


def all_asked_again(shop):
    """Ask for all again; return whether the damage was noticed by anybody."""
    try:
        at = shop.open()
    except JournalError:
        return True
    try:
        values = [asked(at, order) for order in ORDERS]
        assert all(value in (None, f"{order} done") for order, value in zip(ORDERS, values, strict=True))
        assert shop.effects == ORDERS
        return None in values or not checked(at.guard)
    finally:
        at.guard.close()


def checked(guard):
    try:
        return guard.journal.check().ok
    except JournalError:
        return False


def test_a_torn_line_in_the_spill_file_harms_no_other(shop, holder):
    at = shop.open()
    shop.after = holder.hold
    result = at.send.call(order="a")
    shop.after = lambda: None
    spill = shop.path.parent / "agent.db-spill"
    spill.write_bytes(b"00000000 torn\n" + spill.read_bytes() + b"1234")
    holder.let_go()
    until(lambda: at.guard.look(result.operation_id).status == "succeeded", "the whole line is on record")
    assert at.send.call(order="a").replayed
    assert shop.effects == ["a"]

"""The shop of the demo on real sockets, in this process."""

import json
from contextlib import contextmanager

import pytest

from settled.demo.agent import lines
from settled.demo.books import Books
from settled.demo.desk import Desk
from settled.demo.faults import CALM, FaultLog
from settled.demo.service import Door, Front, Kills
from settled.demo.shop import Shop


class Opened:
    """A shop that is open, and what its files say."""

    def __init__(self, folder, books, front, url):
        self.folder, self.books, self.front, self.url = folder, books, front, url
        self.events = []

    def log(self):
        return lines(self.folder / "faults.jsonl")

    def marks(self):
        return [effect.mark for effect in self.books.effects()]

    def obey_kills(self):
        """Stand in for the driver: whoever is to be killed counts as killed at once."""

        def tell(event):
            self.events.append((event["kill"], self.marks()))
            self.front.kills.killed.set()

        return tell


@pytest.fixture
def open_shop(tmp_path):
    @contextmanager
    def opened(*faults, kills=None):
        books, log = Books(tmp_path / "books.db"), FaultLog(tmp_path / "faults.jsonl")
        shop = Opened(tmp_path, books, None, "")

        def weather(name, no):
            return faults[no] if no < len(faults) else CALM

        shop.front = Front(
            weather, Desk(books), log, Kills(kills or {}, shop.obey_kills()), tmp_path / "requests.jsonl"
        )
        door = Door(shop.front)
        shop.url = f"http://127.0.0.1:{door.port}"
        try:
            yield shop
        finally:
            door.close()
            shop.front.close()
            log.close()
            books.close()

    return opened


@pytest.fixture
async def client():
    clients = []

    def connect(shop):
        clients.append(Shop(shop.url))
        return clients[-1]

    yield connect
    for each in clients:
        await each.close()


@pytest.fixture
def write_lines():
    def write(path, rows):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    return write

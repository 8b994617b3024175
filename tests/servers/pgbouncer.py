"""A real PgBouncer from the system's packages, in transaction mode, before a server of the tests."""

import shutil
import signal
import socket
import subprocess
import time

from tests.servers.postgres import PATIENCE

CONFIGURATION = """
[databases]
* = host={folder} port=5432 user=postgres

[pgbouncer]
unix_socket_dir = {sockets}
listen_port = 6432
listen_addr =
auth_type = any
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 200
logfile = {sockets}/log
ignore_startup_parameters = extra_float_digits
"""


class PgBouncer:
    """Gives each transaction one of a few connections to the server; a context manager."""

    def __init__(self, server, *, size=3):
        program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
        assert program, "these tests need PgBouncer from the system's packages: apt-get install pgbouncer"
        self._server, self._sockets = server, server.folder("bouncer")
        configuration = CONFIGURATION.format(folder=server.folder(), sockets=self._sockets, size=size)
        (self._sockets / "pgbouncer.ini").write_text(configuration)
        self._command = [program, self._sockets / "pgbouncer.ini"]

    def __enter__(self):
        self._process = self._server.popen(self._command, log=self._sockets / "out")
        end = time.monotonic() + PATIENCE
        while True:
            with socket.socket(socket.AF_UNIX) as probe:
                if not probe.connect_ex(f"{self._sockets}/.s.PGSQL.6432"):
                    return self
            assert self._process.poll() is None, (self._sockets / "out").read_text()
            assert time.monotonic() < end
            time.sleep(0.02)

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(PATIENCE)

    def url(self, **options):
        fields = "".join(f"&{name}={value}" for name, value in options.items())
        return f"postgresql://postgres@:6432/postgres?host={self._sockets}{fields}"

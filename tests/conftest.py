"""What holds for every test: the same examples on every machine of CI, and nothing skipped."""

import os
import signal
import tempfile

import pytest
from hypothesis import HealthCheck, settings

# A slow machine is no failure; no test speaks of time. On CI the examples are the same in every run; elsewhere they
# are drawn anew, and a failure prints how to draw it again.
patient = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "print_blob": True}
settings.register_profile("ci", derandomize=True, database=None, **patient)
settings.register_profile("dev", **patient)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

# Where the run was started in the background an interrupt is ignored, and every process started here would be deaf too.
signal.signal(signal.SIGINT, signal.default_int_handler)

UNDONE = pytest.StashKey[list[str]]()
SOMEBODYS = {
    *("CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR"),
    *("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    *("SETTLED_APP", "SETTLED_JOURNAL"),
}
"""What the environment says of who runs the tests, of their terminal and network: no test is to depend on it."""


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server. Where it cannot be started every test that asks for it fails."""
    from tests.servers.postgres import PostgresServer  # noqa: PLC0415 - few tests need psycopg

    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def redis():
    """A Valkey server that syncs each write, as runs that are undone need it. It fails as ``postgres`` does."""
    from tests.servers.redis import RedisServer  # noqa: PLC0415 - few tests need redis

    with RedisServer() as server:
        yield server


def pytest_configure(config):
    # What belongs to no test's own folder is not to go to the home of who runs the tests, nor to be found there.
    state = tempfile.TemporaryDirectory(prefix="state-")
    os.environ["XDG_STATE_HOME"] = state.name
    config.add_cleanup(state.cleanup)
    for name in [name for name in os.environ if name.upper() in SOMEBODYS or name.startswith("PG")]:
        del os.environ[name]
    config.stash[UNDONE] = []
    config.pluginmanager.register(NothingSkipped(config.stash[UNDONE]), "nothing-skipped")


class NothingSkipped:
    """Fails a session in which a test or a whole file was skipped or expected to fail."""

    def __init__(self, undone):
        self.undone = undone

    def pytest_runtest_logreport(self, report):
        if report.skipped:
            self.undone.append(report.nodeid)

    def pytest_collectreport(self, report):
        if report.skipped:
            self.undone.append(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session):
        if self.undone and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter):
        if self.undone:
            terminalreporter.section("skipped or expected to fail: not allowed here", red=True)
            terminalreporter.write("".join(f"{name}\n" for name in sorted(set(self.undone))))

"""What is installed: it says what is missing, loads what is asked for, runs on any system, and holds what it should."""

import subprocess
import sys
import tarfile
import zipfile

import pytest

from tests.shared import ROOT

WITHOUT = """
import os, sys, sysconfig, zoneinfo  # of Python's own, what looks for a POSIX system's modules itself is loaded before
sys.path.insert(0, {src!r})

class Missing:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing)
for name in {missing!r}:
    sys.modules.pop(name, None)
for name in {gone!r}:
    if hasattr(os, name):
        delattr(os, name)
"""
POSIX = ("fcntl", "grp", "pwd", "resource", "syslog", "termios")
POSIX_CALLS = ("chown", "fchmod", "fchown", "fork", "geteuid", "getuid", "register_at_fork", "statvfs", "sysconf")
A_CALL = """
import settled
with settled.Guard("sqlite:///agent.db") as guard, guard.run("r"):
    assert guard.tool(effect="write")(lambda: 1)() == 1
"""


def run(code, folder, *, missing=(), gone=()):
    words = WITHOUT.format(src=str(ROOT / "src"), missing=missing, gone=gone) + code
    return subprocess.run([sys.executable, "-c", words], cwd=folder, timeout=60, check=False, capture_output=True)


def test_calls_are_made_on_sqlite_where_a_system_has_nothing_of_posix(tmp_path):
    ended = run(A_CALL, tmp_path, missing=POSIX, gone=POSIX_CALLS)
    assert ended.returncode == 0, ended.stderr.decode()


EXTRAS = ("agents", "apprise", "cryptography", "httpx", "hypothesis", "langchain", "langchain_core", "langgraph")
EXTRAS += ("psycopg", "pydantic_ai", "pytest", "redis", "sentry_sdk", "tenacity")


def test_what_is_optional_is_not_needed(tmp_path):
    ended = run(A_CALL + "import settled.cli.app, settled.observe, settled.transports", tmp_path, missing=EXTRAS)
    assert ended.returncode == 0, ended.stderr.decode()


LATE = ("rich", "sqlite3", "typer", "settled.cli", "settled.demo", "settled.observe", "settled.testing")


def test_a_program_loads_no_more_than_it_uses(tmp_path):
    ended = run(f"import settled; print([name for name in {LATE!r} if name in sys.modules])", tmp_path)
    assert ended.stdout.decode().strip() == "[]"


@pytest.mark.parametrize(
    ("adapter", "extra", "framework"),
    [
        ("langchain", "langchain", "langchain_core"),
        ("openai_agents", "openai-agents", "agents"),
        ("pydantic_ai", "pydantic-ai", "pydantic_ai"),
    ],
)
def test_an_adapter_without_its_framework_says_what_to_install(tmp_path, adapter, extra, framework):
    ended = run(f"import settled.adapters.{adapter}", tmp_path, missing=(framework,))
    last = ended.stderr.decode().splitlines()[-1]
    assert last.startswith(
        f"ImportError: install it with `pip install 'settled[{extra}]'`: No module named '{framework}"
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the source archive, as they are published: their files, below the archive's own folder."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", folder], cwd=ROOT, check=True, timeout=120)
    (wheel,), (archive,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as read, tarfile.open(archive) as opened:
        return read.namelist(), [name.partition("/")[2] for name in opened.getnames()]


def tracked(*folders):
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *folders]
    listed = subprocess.run(words, cwd=ROOT, check=False, timeout=60, capture_output=True)
    if listed.returncode:
        pytest.skip("no clone")  # an unpacked source archive: nothing but itself says what belongs into it
    return {name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).exists()}


def test_the_wheel_holds_the_package_and_nothing_else(built):
    wheel, _ = built
    files = {name for name in wheel if ".dist-info/" not in name}
    assert files == {name.removeprefix("src/") for name in tracked("src")}
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel)
    assert "settled/py.typed" in files


def test_the_source_archive_holds_the_clone(built):
    _, archive = built
    assert set(archive) - {"PKG-INFO", ".gitignore"} == tracked() - {".gitignore"}

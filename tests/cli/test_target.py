"""Which journal, and which app: every mistake has a word and a code, and nothing is ever created."""

import os
import sys
from unittest.mock import MagicMock

import pytest
from cryptography.fernet import Fernet

from settled.cli.exits import Problem
from settled.cli.target import Given, opened
from tests.cli.conftest import there

READING = [
    ("status",),
    ("calls", "list"),
    ("calls", "show", "op_1"),
    ("queue", "list"),
    ("queue", "show", "op_1"),
    ("queue", "resolve", "op_1", "hold", "--reason", "x"),
    ("breakers", "list"),
    ("breakers", "reset", "--all"),
    ("journal", "check"),
    ("journal", "verify"),
    ("journal", "head"),
    ("journal", "prune"),
    ("journal", "migrate"),
]


@pytest.mark.parametrize("words", READING)
def test_no_command_creates_a_journal(shop, words):
    ended = shop.cli(*words, "--json")
    assert (ended.code, ended.out) == (3, "")
    assert ended.error["code"] == "journal"
    assert "shop.db" in ended.error["message"]
    assert there(shop.folder) == ["shop.py"]


@pytest.mark.parametrize("words", [("status",), ("reconcile",), ("queue", "probe", "op_1")])
def test_no_command_creates_a_journal_through_an_app_either(shop, words):
    ended = shop.cli(*words, app=True, journal=False)
    assert ended.code == 3
    assert "shop.db" in ended.err
    assert there(shop.folder) == ["shop.py"]


def test_without_a_journal_the_option_and_the_variable_are_named(shop):
    ended = shop.cli("status", journal=False)
    assert ended.code == 2
    assert "--journal" in ended.err
    assert "SETTLED_JOURNAL" in ended.err


def test_the_variables_stand_for_the_options(shop, monkeypatch):
    op = shop.make("mail", to="a").operation_id
    monkeypatch.setenv("SETTLED_JOURNAL", shop.url)
    assert shop.cli("status", journal=False).code == 0
    shown = shop.cli("queue", "show", op, journal=False).out
    assert "hold --reason '...'\n" in shown, "what the environment gives is not repeated"
    monkeypatch.delenv("SETTLED_JOURNAL")
    monkeypatch.setenv("SETTLED_APP", "shop:guard")
    assert shop.cli("reconcile", journal=False).code == 0


def test_the_journal_of_one_command_is_not_left_in_the_environment(shop, monkeypatch):
    shop.make("mail", to="a")
    monkeypatch.delenv("SETTLED_JOURNAL", raising=False)
    assert shop.cli("reconcile", "--app", "shop:guard").code == 0
    assert "SETTLED_JOURNAL" not in os.environ


@pytest.mark.parametrize(
    ("url", "code", "words"),
    [
        ("memory://", 3, "in memory"),
        ("shop.db", 2, "sqlite:///"),
        ("redis://db/x", 3, "not understood"),
        ("redis://127.0.0.1:1/0", 3, "cannot be reached"),
        ("postgresql://127.0.0.1:1/x", 3, "cannot be reached"),
        ("sqlite://host/shop.db", 3, "address"),
        ("sqlite:///shop.py", 3, "not an SQLite database"),
        ("sqlite:///no/folder/shop.db", 3, "no journal at"),
        ("sqlite:///shop.db?colour=red", 3, "options are"),
    ],
)
def test_an_address_that_cannot_be_used_says_why(shop, url, code, words):
    shop.make("price", item="a")
    ended = shop.cli("status", "--journal", url, journal=False)
    assert ended.code == code
    assert words in ended.err
    assert "Traceback" not in ended.err


def test_an_empty_or_foreign_file_is_no_journal(shop):
    (shop.folder / "shop.db").touch()
    assert shop.cli("status").code == 3
    assert (shop.folder / "shop.db").stat().st_size == 0


def test_a_journal_that_cannot_be_read_is_a_journal_problem(shop):
    shop.make("price", item="a")
    damaged = bytearray((shop.folder / "shop.db").read_bytes())
    damaged[100:] = os.urandom(len(damaged) - 100)
    (shop.folder / "shop.db").write_bytes(damaged)
    ended = shop.cli("calls", "list")
    assert ended.code == 3
    assert "damaged" in ended.err


@pytest.mark.parametrize(
    ("reference", "code", "words"),
    [
        ("shop", 2, "module:guard"),
        (":guard", 2, "module:guard"),
        ("shop:", 2, "module:guard"),
        ("shap:guard", 6, "no module 'shap'"),
        ("shop.inner:guard", 6, "shop"),
        ("shop:gard", 6, "it has these guards: guard"),
        ("shop:number", 6, "is a int"),
        ("shop:broken", 6, "raised RuntimeError: no database"),
        ("shop:later", 6, "coroutine"),
        ("shop:find_order", 6, "raised TypeError"),
        ("failing:guard", 6, "importing failing raised ZeroDivisionError"),
        ("wanting:guard", 6, "importing wanting raised ModuleNotFoundError: No module named 'nowhere'"),
        ("leaving:guard", 6, "importing leaving raised SystemExit"),
        ("wrong:guard", 6, "importing wrong raised SyntaxError"),
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_an_app_that_cannot_be_used_says_why(shop, reference, code, words):
    shop.make("price", item="a")
    files = {"failing": "\n1 / 0", "wanting": "import nowhere", "leaving": "raise SystemExit(0)", "wrong": "def"}
    for name, text in files.items():
        (shop.folder / f"{name}.py").write_text(text)
    ended = shop.cli("status", "--app", reference, "--json", journal=False)
    assert (ended.code, ended.out) == (code, "")
    assert words in ended.error["message"]


def test_where_an_app_raised_is_told(shop):
    (shop.folder / "failing.py").write_text("\n\n1 / 0")
    assert "failing.py, line 3" in shop.cli("status", "--app", "failing:guard", journal=False).err


def test_a_function_may_return_the_guard(shop):
    shop.make("price", item="a")
    assert shop.cli("status", "--app", "shop:make", journal=False).code == 0


def test_app_and_journal_must_mean_the_same(shop):
    shop.make("price", item="a")
    assert shop.cli("status", app=True).code == 0
    there_too = f"sqlite:///{shop.folder}/shop.db"
    assert shop.cli("status", "--journal", there_too, app=True, journal=False).code == 0
    ended = shop.cli("status", "--journal", "sqlite:///other.db", app=True, journal=False)
    assert ended.code == 2
    assert "leave one out" in ended.err


SAME = [
    ("postgresql://ann:s3cret@db.example/agent", "postgresql://ann@db.example/agent?schema=settled", True),
    ("postgres://ann@db.example/agent?pool=2", "postgresql://ann@db.example/agent?schema=settled", True),
    ("postgresql://ann@db.example/agent", "postgresql://ann@db.example/agent?schema=mine", True),
    ("postgresql://ann@db.example/agent?schema=other", "postgresql://ann@db.example/agent?schema=mine", False),
    ("postgresql://ann:s3cret@db.example/other", "postgresql://ann@db.example/agent?schema=settled", False),
    ("redis://:s3cret@host:6379/0", "redis://host:6379/0?prefix=settled", True),
    ("redis://host:6379/0", "redis://host:6379/0?prefix=mine", True),
    ("redis://host:6379/1", "redis://host:6379/0?prefix=settled", False),
    ("unix:///run/v.sock?password=s3cret", "unix:///run/v.sock?prefix=settled", True),
]


@pytest.mark.parametrize(("given", "used", "same"), SAME)
def test_an_address_means_the_journal_that_shows_it_without_password_and_with_its_defaults(
    monkeypatch, given, used, same
):
    """SETTLED_JOURNAL beside SETTLED_APP, as a deployment sets them: a guard shows more, and less, than it was told."""
    (guard := MagicMock()).journal.url = used
    monkeypatch.setattr("settled.cli.target.load_guard", lambda _: guard)
    if same:
        with opened(Given(given, "shop:guard")) as target:
            assert target.given.app == "shop:guard"
        return
    with pytest.raises(Problem) as refused, opened(Given(given, "shop:guard")):
        pass
    assert "leave one out" in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_an_app_told_by_the_environment_gets_the_journal_that_was_given(shop):
    shop.make("price", item="a")
    (shop.folder / "free.py").write_text("import settled\nguard = settled.Guard()\n")
    assert shop.cli("status", "--app", "free:guard").code == 0


def test_what_an_app_prints_is_not_data(shop):
    shop.make("price", item="a")
    (shop.folder / "loud.py").write_text("print('hello')\nfrom shop import guard\n")
    ended = shop.cli("status", "--app", "loud:guard", "--json", journal=False)
    assert ended.json["calls"] == {"succeeded": 1}
    assert "hello" in ended.err


SECRET = """
import settled
guard = settled.Guard("sqlite:///secret.db", encryption_key={key!r})

@guard.tool(redact=["card"])
def pay(card: str, cents: int) -> str:
    raise TimeoutError
"""


@pytest.fixture
def sealed(shop):
    """A call in an encrypted journal; returns its id."""
    (shop.folder / "secret.py").write_text(SECRET.replace("{key!r}", repr(Fernet.generate_key().decode())))
    shop.url = "sqlite:///secret.db"
    sys.modules.pop("secret", None)
    import secret  # noqa: PLC0415 - written just now

    with secret.guard:
        op = secret.pay.call(card="4111", cents=5).operation_id
    del sys.modules["secret"]
    yield op
    sys.modules.pop("secret", None)


def test_an_encrypted_record_is_shown_by_the_app_that_has_the_key(shop, sealed):
    ended = shop.cli("calls", "show", sealed)
    assert "encrypted" in ended.out
    assert "4111" not in ended.out
    document = shop.cli("calls", "show", sealed, "--json", "--app", "secret:guard").json
    assert document["arguments"] == {"card": "[redacted]", "cents": 5}


def test_a_result_never_goes_in_clear_into_an_encrypted_journal(shop, sealed):
    words = ("queue", "resolve", sealed, "happened", "--reason", "seen", "--result", '"receipt 77"')
    ended = shop.cli(*words)
    assert ended.code == 5
    assert "encrypted" in ended.err
    assert shop.cli(*words, "--app", "secret:guard").code == 0
    assert b"receipt 77" not in b"".join(path.read_bytes() for path in shop.folder.glob("secret.db*"))


def test_a_command_to_type_next_holds_no_password(monkeypatch):
    monkeypatch.delenv("SETTLED_JOURNAL", raising=False)
    told = Given("postgresql://ann:s3cret@db.example/agent?schema=s", None).options()
    assert told == " --journal 'postgresql://ann:***@db.example/agent?schema=s'"
    told = Given("unix:///run/valkey.sock?password=s3cret%2F&prefix=a&sslpassword=s3cret", None).options()
    assert told == " --journal 'unix:///run/valkey.sock?password=***&prefix=a&sslpassword=***'"


@pytest.mark.parametrize(
    ("url", "package", "module"),
    [
        ("postgresql://host/db", "settled[postgres]", "settled.journals.postgres"),
        ("redis://host/0", "settled[redis]", "settled.journals.redis"),
    ],
)
def test_a_journal_whose_extra_is_missing_names_it(shop, monkeypatch, url, package, module):
    monkeypatch.setitem(sys.modules, module, None)
    ended = shop.cli("status", "--journal", url, "--json", journal=False)
    assert (ended.code, ended.error["code"]) == (6, "loading")
    assert package in ended.error["message"]


def test_a_tool_that_is_named_for_its_guard_is_not_called(shop):
    """A command that only looks would do what the tool does."""
    (shop.folder / "night.py").write_text(
        "import pathlib, settled\n"
        "guard = settled.Guard('sqlite:///shop.db')\n"
        "@guard.tool(effect='write')\n"
        "def nightly() -> str:\n"
        "    pathlib.Path('done').touch()\n"
        "    return 'done'\n"
    )
    shop.make("mail", to="a")
    ended = shop.cli("status", "--app", "night:nightly", journal=False)
    assert ended.code == 6
    assert "night:nightly is a tool: name the guard that it belongs to, as in night:guard" in ended.err
    assert "done" not in there(shop.folder)

"""The command line as it is used: in a process of its own, on terminals, in pipes."""

import os
import pty
import re
import subprocess
import sys

import pytest

import settled
from settled.cli import main
from settled.cli.exits import MEANING, Exit
from settled.cli.reference import reference
from tests.shared import ROOT


def test_a_lost_answer_goes_from_the_queue_to_its_end(shop, process):
    around = {"SETTLED_APP": "shop:guard"}
    make = "import shop; shop.guard.tools['mail'].call(to='a')"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([sys.executable, "-c", make], cwd=shop.folder, env=environment, timeout=60, check=True)
    assert "1 unknown" in process("status").out
    (row,) = process("queue", "list", "--json").json["calls"]
    op = row["operation_id"]
    shown = process("queue", "show", op)
    assert "timeout" in shown.out
    command = next(line.strip() for line in shown.out.splitlines() if "did-not-happen --then rerun" in line)
    words = command.replace("'...'", "checked").split()
    assert words[:4] == ["settled", "queue", "resolve", op]
    done = process(*words[1:], "--by", "Ada", "--yes")
    assert (done.code, done.err) == (0, "")
    assert process("queue", "list", "--fail").code == 0
    assert process("reconcile", environment=around).code == 0
    log = process("calls", "show", op, "--json").json["log"]
    assert [entry["event"] for entry in log] == ["claim", "doubt", "absent"]
    assert log[-1]["detail"] == "did_not_happen by Ada: checked"
    assert process("journal", "verify").code == 0


def test_module_and_console_script_are_the_same(shop, process):
    assert process("--version").out == f"settled {settled.__version__}\n"
    around = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "settled", "--version"]
    done = subprocess.run(command, env=around, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"settled {settled.__version__}\n"


def test_a_reader_that_goes_away_ends_it_quietly(shop):
    for number in range(30):
        shop.make("mail", to=str(number) * 5000)
    command = f"{sys.executable} -m settled.cli queue list --json | head -1; echo ${{PIPESTATUS[0]}} >&2"
    around = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "SETTLED_JOURNAL": shop.url}
    done = subprocess.run(
        ["bash", "-c", command], cwd=shop.folder, env=around, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "{\n"
    assert done.stderr in ("141\n", "0\n"), "0 where the whole output fitted into the pipe before its reader left"


@pytest.mark.parametrize("words", [("--help",), ("queue", "--help"), ("status",)])
def test_a_closed_pipe_ends_it_quietly(shop, words):
    shop.make("price", item="a")
    reading, writing = os.pipe()
    os.close(reading)
    around = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "SETTLED_JOURNAL": shop.url}
    command = [sys.executable, "-m", "settled.cli", *words]
    done = subprocess.run(
        command, cwd=shop.folder, env=around, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def on_terminal(shop, *words, **environment):
    """Run a command on a terminal of 80 columns; return what it shows there."""
    ours, theirs = pty.openpty()
    around = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src"), "SETTLED_JOURNAL": shop.url, "COLUMNS": "80"}
    command = [sys.executable, "-m", "settled.cli", *words]
    chosen = {**around, "TERM": "xterm-256color", **environment}
    process = subprocess.Popen(command, cwd=shop.folder, env=chosen, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:
        pass  # how Linux tells that the other end is closed
    os.close(ours)
    assert process.wait(timeout=60) == 0
    return shown.decode().replace("\r\n", "\n")


def test_a_terminal_gets_colours_and_lines_that_fit(shop):
    op = shop.make("mail", to="a" * 200).operation_id
    for words in (("queue", "list"), ("calls", "list"), ("status",)):
        shown = on_terminal(shop, *words)
        assert "\x1b[" in shown
        lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
        assert max(len(line) for line in lines) <= 80
    assert any(line.startswith(op) for line in on_terminal(shop, "queue", "list").splitlines())


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_that_wants_no_colours_gets_none(shop, environment):
    shop.make("mail", to="a")
    assert "\x1b" not in on_terminal(shop, "queue", "list", **environment)


def test_a_pipe_gets_neither_colours_nor_boxes_nor_cut_lines(shop, process):
    op = shop.make("mail", run="r" * 150, to="a").operation_id
    for words in (("queue", "list"), ("queue", "show", op), ("calls", "list"), ("status",), ("--help",)):
        ended = process(*words, environment={"SETTLED_JOURNAL": shop.url, "COLUMNS": "40", "FORCE_COLOR": "1"})
        assert "\x1b" not in ended.out
        assert not re.search("[\u2500-\u257f\u2026]", ended.out)
    assert "r" * 150 in process("queue", "show", op).out


def test_a_terminal_without_unicode_gets_escapes(shop, process):
    op = shop.make("mail", to="Zo\u00eb \u4e16").operation_id
    ended = process("calls", "show", op, environment={"SETTLED_JOURNAL": shop.url, "PYTHONIOENCODING": "ascii"})
    assert ended.code == 0
    assert "Zo\\xeb \\u4e16" in ended.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_given_for_each_shell(shop, process, shell):
    ended = process("--show-completion", shell, environment={"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"})
    assert ended.code == 0
    assert "_SETTLED_COMPLETE" in ended.out


def test_completion_completes(shop, process):
    asked = {"_SETTLED_COMPLETE": "complete_bash", "COMP_WORDS": "settled queue re", "COMP_CWORD": "2"}
    assert process(environment=asked).out.split() == ["release", "refuse", "resolve"]


def test_usage_errors_are_told_as_text_or_as_json(shop):
    for words in (("bogus",), ("status", "--bogus"), ("queue", "resolve", "op_1"), ("reconcile", "--limit", "x")):
        ended = shop.cli(*words)
        assert (ended.code, ended.out) == (2, "")
        assert "Usage: settled" in ended.err
        ended = shop.cli(*words, "--json")
        assert (ended.code, ended.out) == (2, "")
        assert ended.error["code"] == "usage"


@pytest.mark.parametrize("group", ["calls", "queue", "breakers", "journal"])
def test_a_group_without_a_command_shows_its_help(shop, group):
    ended = shop.cli(group, journal=False)
    assert ended.code == 2
    assert f"Usage: settled {group}" in ended.err


def test_ctrl_c_ends_with_its_own_code(shop, monkeypatch):
    shop.make("price", item="a")

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("settled.cli.status.waiting", interrupt)
    ended = shop.cli("status")
    assert (ended.code, ended.out) == (130, "")
    assert "Traceback" not in ended.err


def test_a_demo_without_its_extra_names_it(shop, monkeypatch):
    monkeypatch.setitem(sys.modules, "settled.demo", None)
    ended = shop.cli("demo", "--json", journal=False)
    assert ended.code == 6
    assert "settled[demo]" in ended.error["message"]


@pytest.mark.parametrize("code", [0, 1])
def test_a_demo_is_run_with_what_was_given(shop, monkeypatch, code):
    import types  # noqa: PLC0415

    asked = []
    demo = types.ModuleType("settled.demo")
    demo.run_demo = lambda **given: asked.append(given) or code
    monkeypatch.setitem(sys.modules, "settled.demo", demo)
    assert shop.cli("demo", "--calls", "20", "--seed", "7", "--json", journal=False).code == code
    assert asked == [{"calls": 20, "seed": 7, "as_json": True}]


def test_the_reference_is_the_help(shop):
    written = (ROOT / "docs" / "reference" / "cli.md").read_text()
    assert written.rstrip() == reference().rstrip(), "python -m settled.cli.reference > docs/reference/cli.md"


def test_every_exit_code_has_a_meaning_that_the_help_tells(capsys):
    assert set(MEANING) == set(Exit)
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(re.search(rf"^ +{code:d}  \S", shown, re.MULTILINE) for code in Exit)

"""``settled worker`` in processes of its own: on a file and on a server, alone and several at once."""

import json
import signal

import pytest

from tests.servers.postgres import PostgresServer
from tests.waiting import until
from tests.worker.conftest import App


def rounds(worker):
    """What a worker has said in the end: its rounds, and the sum."""
    out, err = worker.communicate(timeout=60)
    *told, total = map(json.loads, out.splitlines())
    return told, total, err


def test_it_settles_what_processes_left_behind(app):
    """One process was killed after the effect; another left calls in doubt, and was given answers by nobody."""
    assert app.python("app.pay('killed')")[0] == -signal.SIGKILL
    assert app.python("app.leave('done', 'lost', 'odd'); app.effects.write_text('killed done')")[0] == 0
    assert app.python("app.mail('old')")[0] == 0
    until(lambda: app.once() and {"done", "killed", "lost", "odd"} <= set(app.lines("asked")), "a look at each")
    assert app.lines("asked").count("killed") == 1
    states = app.states()
    assert "(<State.SUCCEEDED: 'succeeded'>, 2)" in states
    assert "(<State.NOT_DONE: 'not_done'>, 1)" in states
    assert "(<State.UNKNOWN: 'unknown'>, 1)" in states
    assert "(<State.EXPIRED: 'expired'>, 1)" in states
    assert app.lines("effects") == ["killed", "done"], "it makes no attempt"


def test_what_one_round_did_is_told(app):
    assert app.python("app.leave('done', 'lost')")[0] == 0
    told = app.once()
    assert told == {
        "orphans": 0,
        "happened": 1,
        "did_not_happen": 1,
        "left": 0,
        "probes_failed": 0,
        "runs_undone": 0,
        "runs_partly_undone": 0,
        "pruned": 0,
        "findings": 0,
        "waiting": 0,
    }
    assert set(app.once().values()) == {0}


def test_three_workers_ask_about_each_call_once(app):
    orders = [f"order{number}" for number in range(60)]
    assert app.python(f"app.leave(*{orders})")[0] == 0
    workers = [app.worker("--json", "--every", "0.2", "--together", "4") for _ in range(3)]
    assert all("working every" in worker.stderr.readline() for worker in workers)
    until(lambda: len(app.lines("asked")) >= 60, "every call asked about")
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    said = [rounds(worker) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0, 0]
    assert sorted(app.lines("asked")) == sorted(orders)
    assert sum(total["happened"] for _, total, _ in said) == 60


def test_told_to_stop_it_finishes_what_is_under_way(app):
    assert app.python("app.leave('slow1', 'slow2', 'done3'); app.effects.write_text('slow1 slow2 done3')")[0] == 0
    worker = app.worker("--json", "--every", "0.1", "--together", "1")
    app.told_to_stop(worker)
    (app.folder / "hurry").touch()
    told, total, _ = rounds(worker)
    assert worker.returncode == 0
    assert app.lines("asked") == ["slow1"]
    assert total["happened"] == 1
    assert total["waiting"] == 2
    assert [line["happened"] for line in told] == [1]


def test_a_second_signal_ends_it_at_once(app):
    assert app.python("app.leave('slow1')")[0] == 0
    worker = app.worker("--every", "0.1")
    app.told_to_stop(worker)
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=60)
    assert worker.returncode == -signal.SIGTERM


def test_ctrl_c_is_told_by_the_exit_code(app):
    assert app.python("")[0] == 0
    worker = app.worker("--json", "--every", "0.1")
    assert "working every 0.1 s" in worker.stderr.readline()
    worker.send_signal(signal.SIGINT)
    _, total, _ = rounds(worker)
    assert worker.returncode == 130
    assert set(total.values()) == {0}


@pytest.mark.parametrize("words", [("--once",), ("--once", "--fail")])
def test_whether_somebody_waits_is_told_by_the_exit_code(app, words):
    assert app.python("app.leave('odd1')")[0] == 0
    worker = app.worker(*words)
    out, _ = worker.communicate(timeout=60)
    assert worker.returncode == (1 if "--fail" in words else 0)
    assert "waiting for a person" in out


def test_it_goes_on_when_the_server_is_back(tmp_path):
    with PostgresServer() as server:
        app = App(tmp_path, server.url(schema="worker_away", spill=tmp_path / "spill", patience=0.2))
        assert app.python("app.leave('done')")[0] == 0
        worker = app.worker("--json", "--every", "0.1")
        until(lambda: app.lines("asked"), "the first probe")
        assert json.loads(worker.stdout.readline())["happened"] == 1
        server.kill()
        troubled = json.loads(worker.stdout.readline())
        while "trouble" not in troubled:
            troubled = json.loads(worker.stdout.readline())
        assert "cannot be reached" in troubled["trouble"]
        server.start()
        assert app.python("app.leave('done2')")[0] == 0
        until(lambda: "done2" in app.lines("asked"), "the second probe", 120)
        worker.send_signal(signal.SIGTERM)
        _, total, _ = rounds(worker)
        assert (worker.returncode, total["happened"]) == (0, 2)

"""Whether another process lives: it is told dead only where it surely is, for then its attempts count as over."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from settled import host
from settled.core.values import replace


@pytest.fixture
def other():
    """A process that lives until it is told to end."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


@pytest.fixture(autouse=True)
def anew():
    """Nothing is known of this machine before, or after."""
    known = (host.boot_id, host._space, host._machine, host._process)
    for each in known:
        each.cache_clear()
    yield
    for each in known:
        each.cache_clear()


@pytest.fixture(autouse=True)
def _outside(monkeypatch):
    """As if in no container, wherever the tests run."""
    monkeypatch.setattr(host, "_OUTSIDE", host._numbered())


def owner_of(pid):
    return replace(host.this_process(), pid=pid, started=host._started(pid) or "")


def without(monkeypatch, hidden):
    """Let files whose path ``hidden`` names be invisible."""
    read_text, read_bytes, exists, readlink = Path.read_text, Path.read_bytes, Path.exists, Path.readlink

    def guarded(real, missing):
        def look(self, *args, **kwargs):
            if hidden(str(self)):
                return missing(self)
            return real(self, *args, **kwargs)

        return look

    def gone(path):
        raise FileNotFoundError(2, "No such file or directory", str(path))

    monkeypatch.setattr(Path, "read_text", guarded(read_text, gone))
    monkeypatch.setattr(Path, "read_bytes", guarded(read_bytes, gone))
    monkeypatch.setattr(Path, "exists", guarded(exists, lambda _: False))
    monkeypatch.setattr(Path, "readlink", guarded(readlink, gone))


def test_one_that_lives_and_one_that_has_ended(other):
    owner = owner_of(other.pid)
    assert host.alive(owner) is True
    assert host.alive(host.this_process()) is True
    other.kill()
    other.wait(60)
    assert host.alive(owner) is False


def test_a_number_that_was_given_to_another_process(other):
    assert host.alive(replace(owner_of(other.pid), started="1")) is False


@pytest.mark.parametrize("what", ["it alone", "all of /proc"])
def test_what_runs_but_is_hidden_is_not_told_dead(other, monkeypatch, what):
    """As in a mount of /proc with hidepid=, under systemd's ProtectProc=, in a chroot without one."""
    owner = owner_of(other.pid)
    hidden = {"it alone": lambda path: path.startswith(f"/proc/{other.pid}/"), "all of /proc": lambda p: "/proc" in p}
    without(monkeypatch, hidden[what])
    owner = replace(owner, boot=host.boot_id(), space=host._space())
    assert host.alive(owner) is None
    other.kill()
    other.wait(60)
    assert host.alive(owner) is False


def test_what_belongs_to_somebody_else_is_not_told_dead(monkeypatch):
    def not_ours(pid, number):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "kill", not_ours)
    without(monkeypatch, lambda path: path.startswith("/proc/1/"))
    assert host.alive(replace(host.this_process(), pid=1, started="7")) is None


@pytest.mark.parametrize(
    ("machine", "boot", "name", "dead"),
    [
        ("0" * 32, "other-boot", None, False),
        ("0" * 32, "other-boot", "elsewhere", None),
        ("0" * 32, "agent/27612345", None, None),
        ("1" * 32, "other-boot", None, None),
        ("", "other-boot", None, None),
    ],
    ids=["this machine", "another name", "a boot named by the clock", "another machine", "a container"],
)
def test_another_boot_ended_what_ran_on_this_machine_alone(monkeypatch, machine, boot, name, dead):
    """Hosts of one name are many: containers of one service, clones, ``localhost``; each is another boot."""
    named = {"id": "0" * 32}
    monkeypatch.setattr(host, "_NAMES", ("/etc/settled-machine",))
    monkeypatch.setattr(Path, "read_bytes", lambda _: named["id"].encode())
    here = host.this_process()
    named["id"] = machine
    host._machine.cache_clear()
    host._space.cache_clear()
    there = replace(here, boot=boot, host=name or here.host, space=host._space())
    named["id"] = "0" * 32 if machine else ""
    host._machine.cache_clear()
    host._space.cache_clear()
    assert host.alive(there) is dead
    assert host.alive(here) is (True if machine else None)


@pytest.mark.parametrize("named", ["uninitialized", "0" * 32])
def test_what_an_image_has_brought_along_names_no_machine(monkeypatch, named):
    """Many containers have it, perhaps with one host name, on machines of which each has a boot of its own."""
    monkeypatch.setattr(host, "_NAMES", ("/etc/settled-machine",))
    monkeypatch.setattr(Path, "read_bytes", lambda _: named.encode())
    if len(named) == 32:
        monkeypatch.setattr(sys, "platform", "linux")
        monkeypatch.setattr(host, "_OUTSIDE", "pid:[1]")
    assert host.alive(replace(host.this_process(), boot="other-boot")) is None


def test_a_boot_that_is_named_by_the_clock_ends_nothing(monkeypatch):
    """The wall clock is set; a machine sleeps: the same boot then has two such names."""
    here = host.this_process()
    monkeypatch.setattr(host, "boot_id", lambda: "agent/27612345")
    assert host.alive(replace(here, boot="agent/27612346")) is None


def test_when_a_process_began_is_said_alike_to_all(monkeypatch, tmp_path):
    """The words of ps are those of the asker's tongue and time zone: two askers must not take each other for dead."""
    ps = tmp_path / "ps"  # a slim machine has none
    ps.write_text('#!/bin/sh\necho "$LC_ALL $TZ $*"\n')
    ps.chmod(0o700)
    monkeypatch.setattr(host, "_PS", str(ps))
    monkeypatch.setattr(sys, "platform", "darwin")
    said = set()
    for zone, tongue in (("UTC", "C"), ("Asia/Tokyo", "C.UTF-8")):
        monkeypatch.setenv("TZ", zone)
        monkeypatch.setenv("LC_ALL", tongue)
        said.add(host._started_by_ps(os.getpid()))
    assert said == {f"C UTC -o lstart= -p {os.getpid()}"}

"""Processes that the tests of journals start."""

import os
import traceback
import warnings

from tests.shared import ROOT

ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}


def forked():
    """Fork, with other threads at work or not: that is what is tested."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def in_a_child(work):
    """Run ``work`` in a forked child that may lose rights and limits; return what it said."""
    reading, writing = os.pipe()
    pid = forked()
    if not pid:
        try:
            said = work() or "ok"
        except BaseException:  # noqa: BLE001 - it is told to the parent
            said = traceback.format_exc()
        os.write(writing, said.encode()[:60_000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(pid, 0)
    return said

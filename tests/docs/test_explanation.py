"""The code of the pages that explain does what they say."""

import subprocess
import sys
from pathlib import Path

import httpx

from settled import transports
from tests.pages import blocks, run
from tests.shared import ROOT


def test_clients_are_watched_and_left_alone_again():
    alone = httpx.Client._send_single_request
    with httpx.Client() as client:
        run("docs/explanation/transports.md", 0, client=client)
    assert httpx.Client._send_single_request is alone, "all is put back"
    assert "httpx" in transports.install()
    assert httpx.Client._send_single_request is not alone
    transports.uninstall()
    assert httpx.Client._send_single_request is alone


def test_a_journal_of_your_own_is_judged_by_the_contract():
    run("docs/explanation/journals.md", 0)
    Path("test_mine.py").write_text(blocks("docs/explanation/journals.md")[0])
    options = ["-q", "-p", "no:cacheprovider", "-k", "TestMyJournal and (kept or claim)"]
    environment = {"PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", *options, "test_mine.py"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stdout
    assert " passed" in ended.stdout

"""A file that is sent by FTP, and what a server replies on the way: held against what it then has."""

import ftplib
import io
import socket
from contextlib import closing

import pytest

from settled.core.faults import classify
from settled.core.model import Evidence
from tests.transports.once import Once

KIND = {"USER": "331 go on", "PASS": "230 come in", "TYPE": "200 well", "QUIT": "221 bye"}


class Server(Once):
    """Takes one file, if it likes to: ``refusal`` is its reply to ``step``, for all else it has a kind one."""

    def __init__(self, step="", refusal=""):
        super().__init__()
        self.replies = {**KIND, step: refusal}
        self.bytes = None

    def talk(self, sock):
        self._say(sock, self.replies.get("greeting", "220 hello"))
        with closing(socket.create_server(("127.0.0.1", 0))) as data, sock.makefile("rb") as lines:
            for line in lines:
                command = line.decode().split()[0]
                refusal = self.replies.get(command)
                if refusal is not None:
                    self._say(sock, refusal)
                elif command == "EPSV":
                    self._say(sock, f"229 there (|||{data.getsockname()[1]}|)")
                elif command == "STOR":
                    self._take(sock, data)

    def _take(self, sock, data):
        self.bytes = b""
        self._say(sock, "150 give it to me")
        taken, _ = data.accept()
        with closing(taken):
            while more := taken.recv(65536):
                self.bytes += more
        self._say(sock, self.replies.get("end", "226 I have it"))

    def _say(self, sock, words):
        sock.sendall(f"{words}\r\n".encode())


class Ftp(ftplib.FTP):
    """By the way that is the same for both families of addresses."""

    af = socket.AF_INET6

    def makepasv(self):
        return ftplib.parse229(self.sendcmd("EPSV"), self.sock.getpeername())


def send(port):
    with Ftp(timeout=5) as client:
        client.connect("127.0.0.1", port)
        client.login("ann", "word")
        client.storbinary("STOR there", io.BytesIO(b"words"))


ROWS = [
    ("greeting", "421 too many are here", "retryable", "ftp_421"),
    ("PASS", "530 who are you", "permanent", "ftp_530"),
    ("TYPE", "504 what is that", "permanent", "ftp_504"),
    ("EPSV", "425 no room", "retryable", "ftp_425"),
    ("STOR", "550-it is mine\r\n550 Permission denied", "permanent", "ftp_550"),
    ("STOR", "452 no space", "retryable", "ftp_452"),
]


@pytest.mark.parametrize(("step", "refusal", "kind", "code"), ROWS)
def test_a_file_that_was_not_taken_is_not_there(step, refusal, kind, code):
    with Server(step, refusal) as server, pytest.raises(ftplib.Error) as caught:
        send(server.port)
    fault = classify(caught.value)
    assert (fault.kind, fault.evidence, fault.code) == (kind, Evidence.NONE, code)
    assert fault.refresh is (step == "PASS")
    assert server.bytes is None
    gate = step == "PASS"
    assert (classify(caught.value, doubtful=True).evidence is Evidence.NONE) is gate


@pytest.mark.parametrize("end", ["552 no more space", "426 lost", "451 something"])
def test_of_a_file_that_was_sent_some_may_stay(end):
    with Server("end", end) as server, pytest.raises(ftplib.Error) as caught:
        send(server.port)
    assert classify(caught.value).evidence is Evidence.MAYBE
    assert server.bytes == b"words"


def test_a_command_that_was_refused_is_not_done():
    with Server("MKD", "550 no") as server, Ftp(timeout=5) as client:
        client.connect("127.0.0.1", server.port)
        with pytest.raises(ftplib.error_perm) as caught:
            client.mkd("there")
    assert classify(caught.value).code == "ftp_550"


def test_words_without_a_code_prove_nothing():
    assert classify(ftplib.error_perm("no")).evidence is Evidence.MAYBE

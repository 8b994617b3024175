"""Mail by smtplib, against a real server on loopback: what its replies prove, held against what it took over."""

import smtplib

import pytest

from tests.transports.once import Once
from tests.transports.side import closed_port

USUAL = {"ehlo": "250-localhost\r\n250 AUTH PLAIN", "quit": "221 bye"}


class MailServer(Once):
    """Speaks SMTP with one client; ``says`` gives the reply to a command, by its first word, and to the mail's end.

    A reply of ``""`` closes the connection instead.
    """

    def __init__(self, **says):
        super().__init__()
        self.says, self.taken = says, 0

    def talk(self, sock):
        with sock.makefile("rb") as lines:
            self._talk(sock, lines)

    def _talk(self, sock, lines):
        if not self._reply(sock, "hello", "220 ready"):
            return
        for line in lines:
            word = line.split()[0].decode().lower()
            if word == "data" and "data" not in self.says:
                sock.sendall(b"354 go on\r\n")
                while lines.readline() not in (b".\r\n", b""):
                    pass
                self.taken += self.says.get("end", "250")[:3] in ("250", "")
                word = "end"
            if not self._reply(sock, word, USUAL.get(word, "250 yes")):
                return

    def _reply(self, sock, word, otherwise):
        said = self.says.get(word, otherwise)
        sock.sendall(said.encode() + b"\r\n" if said else b"")
        return bool(said)


def send(port, *, login=False):
    with smtplib.SMTP("127.0.0.1", port, timeout=2) as client:
        if login:
            client.login("ann", "wrong")
        client.sendmail("a@test", ["b@test", "c@test"], "Subject: hello\r\n\r\nhello\r\n")


@pytest.mark.parametrize(
    ("says", "status", "code"),
    [
        ({}, "succeeded", ""),
        ({"hello": "554 no"}, "failed", "smtp_554"),
        ({"hello": "421 busy"}, "not_done", "smtp_421"),
        ({"mail": "550 who are you"}, "failed", "smtp_550"),
        ({"rcpt": "550 no such user"}, "failed", "smtp_550"),
        ({"rcpt": "451 greylisted"}, "not_done", "smtp_451"),
        ({"data": "503 not now"}, "failed", "smtp_503"),
        ({"end": "554 spam"}, "failed", "smtp_554"),
        ({"end": "451 try again"}, "not_done", "smtp_451"),
        ({"end": ""}, "unknown", "disconnected"),
        ({"hello": ""}, "not_done", "disconnected"),
        ({"ehlo": ""}, "not_done", "disconnected"),
        ({"rcpt": ""}, "unknown", "disconnected"),
        ({"data": ""}, "unknown", "disconnected"),
        ({"end": "250 yes", "quit": "421 too busy to say good-bye"}, "unknown", "smtp_error"),
    ],
    ids=str,
)
def test_a_mail_is_taken_over_with_the_reply_to_its_data(guard, says, status, code):
    with MailServer(**says) as server:

        @guard.tool(effect="write", attempts=1, breaker=None)
        def mail() -> str:
            send(server.port)
            return "sent"

        result = mail.call()
    assert (result.status, result.reason) == (status, code)
    assert server.taken == (status == "succeeded" or says.get("end", "554")[:3] in ("250", ""))


def test_a_refused_login_and_a_closed_port_sent_nothing(guard):
    @guard.tool(effect="write", attempts=1, breaker=None)
    def mail(port: int) -> str:
        send(port, login=True)
        return "sent"

    with MailServer(auth="535 wrong password") as server:
        result = mail.call(server.port)
    assert (result.status, result.next, server.taken) == ("not_done", "ask_human", 0)
    assert mail.call(closed_port()).reason == "connect_refused"

"""The other side: a real server on loopback whose answers go wrong as asked, and that counts what it has done.

The first part of a path names what happens, the second one for whom it is counted. ``done`` counts effects of requests
that are meant to have one (no GET); only this side ever writes it.
"""

import contextlib
import functools
import gzip
import json
import os
import re
import socket
import ssl
import struct
import threading
from collections import Counter

OK = b'{"id": "ord_1"}'
JSON = "Content-Type: application/json\r\n"
STALL = 20.0
"""Seconds: longer than any client here waits."""


def answer(status, body=OK, headers=JSON, reason="Said"):
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


class Side:
    """Serves until it is closed. ``tls``: a server context; ``None`` for plain HTTP."""

    def __init__(self, tls=None):
        self.tls = tls
        self.done, self.came, self.keys = Counter(), Counter(), []
        self.closing, self.open = threading.Event(), set()
        self.answers_late = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.scheme = "https" if tls else "http"
        self.url = f"{self.scheme}://127.0.0.1:{self.port}"
        self.threads = [threading.Thread(target=self._accept, daemon=True)]
        self.threads[0].start()

    def close(self):
        self.closing.set()
        self.answers_late.set()
        for each in (self.listener, *self.open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(10)

    def _accept(self):
        while not self.closing.is_set():
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
            self.threads.append(thread)
            thread.start()

    def _serve(self, sock):
        sock.settimeout(STALL)
        self.open.add(sock)
        with contextlib.suppress(OSError, ssl.SSLError, EOFError), contextlib.closing(sock):
            sock = self.tls.wrap_socket(sock, server_side=True) if self.tls else sock
            with contextlib.closing(sock):
                self.open.add(sock)
                while self._one(sock):
                    pass

    def _one(self, sock):
        head = b""
        while b"\r\n\r\n" not in head:
            more = sock.recv(1)
            if not more:
                return False
            head += more
        method, path, _ = head.decode("latin-1").split("\r\n", 1)[0].split(" ")
        row, tag = (*re.split("[/?]", path)[1:3], "")[:2]
        self.came[tag] += 1
        lowered = head.decode("latin-1").lower()
        key = re.search(r"\r\nidempotency-key: (.+?)\r\n", head.decode("latin-1"), re.IGNORECASE)
        self.keys.append(key.group(1) if key else None)
        if row == "reset_unread":
            return self._reset(sock)
        if "expect: 100-continue" in lowered:
            sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._body(sock, lowered)
        changing = method not in ("GET", "HEAD")
        return getattr(self, f"on_{row}")(sock, tag if changing else f"{method} {tag}", path)

    def _body(self, sock, lowered):
        length = re.search(r"\r\ncontent-length: (\d+)", lowered)
        left = int(length.group(1)) if length else 0
        while left:
            left -= len(sock.recv(min(left, 65536)) or self._gone())
        if "transfer-encoding: chunked" in lowered:
            tail = b""
            while not tail.endswith(b"0\r\n\r\n"):
                tail = (tail + (sock.recv(1) or self._gone()))[-5:]

    def _gone(self):
        raise EOFError

    def _reset(self, sock):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False

    def _stall(self):
        self.closing.wait(STALL)
        return False

    # --- what may happen ---

    def on_ok(self, sock, tag, _):
        self.done[tag] += 1
        sock.sendall(answer(200))
        return True

    def on_reset_before_effect(self, sock, *_):
        return self._reset(sock)

    def on_reset_after_effect(self, sock, tag, _):
        self.done[tag] += 1
        return self._reset(sock)

    def on_close_before_effect(self, *_):
        return False

    def on_close_after_effect(self, _, tag, __):
        self.done[tag] += 1
        return False

    def on_stall_before_effect(self, *_):
        return self._stall()

    def on_stall_after_effect(self, _, tag, __):
        self.done[tag] += 1
        return self._stall()

    def on_stall_in_body(self, sock, tag, _):
        self.done[tag] += 1
        sock.sendall(answer(200, b'{"id": "ord')[:-3].replace(b"Content-Length: 11", b"Content-Length: 99"))
        return self._stall()

    def on_half_headers(self, sock, tag, _):
        self.done[tag] += 1
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Ty")
        return False

    def on_wrong_length(self, sock, tag, _):
        self.done[tag] += 1
        sock.sendall(answer(200).replace(b"Content-Length: 15", b"Content-Length: 99"))
        return False

    def on_garbage(self, sock, tag, _):
        self.done[tag] += 1
        sock.sendall(b"\x00\x01 this is no HTTP\r\n\r\n")
        return False

    def on_broken_gzip(self, sock, tag, _):
        self.done[tag] += 1
        sock.sendall(answer(200, b"not gzip at all", JSON + "Content-Encoding: gzip\r\n"))
        return True

    def on_page(self, sock, *_):
        """Of whatever stands before a service that is down."""
        sock.sendall(answer(200, b"<html>We will be back soon.</html>", "Content-Type: text/html\r\n"))
        return True

    def on_plain_after_tls(self, sock, tag, _):
        """Do it, and answer beside the encryption."""
        self.done[tag] += 1
        with socket.socket(fileno=os.dup(sock.fileno())) as plain:
            plain.sendall(answer(400))
        return False

    def on_not_json(self, sock, tag, _):
        self.done[tag] += 1
        sock.sendall(answer(200, b'{"id": "ord'))
        return True

    def on_redirect_to_nowhere(self, sock, tag, _):
        """Do it, and send the client on to where nobody listens."""
        self.done[tag] += 1
        sock.sendall(answer(307, b"", f"Location: http://127.0.0.1:{closed_port()}/ok\r\n"))
        return True

    def on_redirect_to_refusal(self, sock, tag, _):
        """Do it, and send the client on to where the request is refused."""
        self.done[tag] += 1
        sock.sendall(answer(307, b"", "Location: /refused_422\r\n"))
        return True

    def on_see_what_is_gone(self, sock, tag, _):
        """Do it, and send the client to look at what is not there."""
        self.done[tag] += 1
        sock.sendall(answer(303, b"", "Location: /refused_404\r\n"))
        return True

    def on_two_lengths(self, sock, tag, _):
        self.done[tag] += 1
        sock.sendall(answer(200).replace(b"Content-Length: 15", b"Content-Length: 15\r\nContent-Length: 20"))
        return False

    def on_done_503_of_a_cache(self, sock, tag, _):
        """Do it, behind a cache that has waited for it too long."""
        self.done[tag] += 1
        page = b"<!DOCTYPE html><title>503 Backend fetch failed</title><h3>Guru Meditation:</h3>"
        sock.sendall(answer(503, page, "Content-Type: text/html\r\nRetry-After: 5\r\nVia: 1.1 varnish\r\n"))
        return True

    def on_redirect_loop(self, sock, tag, path):
        self.done[tag] += 1
        sock.sendall(answer(307, b"", f"Location: {path}\r\n"))
        return True

    def on_refused_400(self, sock, *_):
        return self._say(sock, 400, {"error": {"code": "bad_request", "message": "no"}})

    def on_refused_401(self, sock, *_):
        return self._say(sock, 401, {"error": {"message": "who are you"}})

    def on_refused_402(self, sock, *_):
        return self._say(sock, 402, {"error": {"type": "card_error", "code": "card_declined", "message": "declined"}})

    def on_gzipped_402(self, sock, *_):
        body = gzip.compress(b'{"error": {"code": "card_declined"}}')
        sock.sendall(answer(402, body, JSON + "Content-Encoding: gzip\r\n"))
        return True

    def on_refused_404(self, sock, *_):
        return self._say(sock, 404, {"error": {"message": "no such thing"}})

    def on_refused_422(self, sock, *_):
        return self._say(sock, 422, {"error": {"message": "no such customer"}})

    def on_throttled(self, sock, *_):
        return self._say(sock, 429, {"error": {"message": "slow down"}}, "Retry-After: 1\r\n")

    def on_throttled_bare(self, sock, *_):
        return self._say(sock, 429, {})

    def on_quota(self, sock, *_):
        return self._say(sock, 429, {"error": {"code": "insufficient_quota", "type": "insufficient_quota"}})

    def on_busy_503(self, sock, *_):
        return self._say(sock, 503, {}, "Retry-After: 1\r\n")

    def on_done_500(self, sock, tag, _):
        return self._done_and(sock, tag, 500)

    def on_done_502(self, sock, tag, _):
        return self._done_and(sock, tag, 502)

    def on_done_503(self, sock, tag, _):
        return self._done_and(sock, tag, 503)

    def on_done_504(self, sock, tag, _):
        return self._done_and(sock, tag, 504)

    def on_done_409(self, sock, tag, _):
        return self._done_and(sock, tag, 409)

    def on_done_408(self, sock, tag, _):
        return self._done_and(sock, tag, 408)

    def on_failed_500(self, sock, *_):
        return self._say(sock, 500, {"error": {"message": "before anything was done"}})

    def on_slow(self, sock, tag, _):
        """Answer, but no sooner than the test says."""
        self.done[tag] += 1
        self.answers_late.wait(STALL)
        sock.sendall(answer(200))
        return True

    def on_slow_refusal(self, sock, *_):
        self.closing.wait(0.6)
        return self._say(sock, 422, {"error": {"message": "too late, and no"}})

    def _done_and(self, sock, tag, status):
        self.done[tag] += 1
        return self._say(sock, status, {"error": {"message": "after it was done"}})

    def _say(self, sock, status, body, headers=""):
        sock.sendall(answer(status, json.dumps(body).encode(), JSON + headers))
        return True


class Mute:
    """Takes connections and says nothing: who wants to speak TLS to it waits."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]

    def close(self):
        self.listener.close()


class Hanging:
    """Closes each connection at its first bytes: a TLS handshake that breaks off."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                sock.recv(1)
                sock.close()

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(10)


@functools.cache
def closed_port():
    """Return a port on which nobody listens, nor will: it is held for as long as this process lives."""
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    port = held.getsockname()[1]
    held.detach()
    return port


class Leaving:
    """Does one effect, ends as asked, and is gone: the next connection is refused. A context manager.

    ``ends``: ``reset``, ``502``, ``307`` or ``303`` to a closed port, or a ``broken frame`` of HTTP/2. A GET before is
    answered.
    """

    def __init__(self, ends):
        self.done, self._ends = 0, ends
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)

    def _serve(self):
        with contextlib.suppress(OSError):
            sock, _ = self._listener.accept()
            sock.settimeout(STALL)
            with contextlib.closing(sock), sock.makefile("rb") as came:
                self._one(sock, came)

    def _one(self, sock, came):
        if self._ends == "broken frame":
            self._frames(sock, came)
            return
        while (method := self._request(came)) == b"GET":
            sock.sendall(answer(200))
        if not method:
            return
        self.done += 1
        self._listener.close()
        if self._ends == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            place = f"Location: http://127.0.0.1:{closed_port()}/\r\n" if self._ends in ("303", "307") else ""
            sock.sendall(answer(self._ends, b"", f"{place}Connection: close\r\n"))

    @staticmethod
    def _request(came):
        method = came.readline().partition(b" ")[0]
        length = 0
        while (line := came.readline().lower()).strip():
            length = int(line.partition(b":")[2]) if line.startswith(b"content-length:") else length
        came.read(length)
        return method

    def _frames(self, sock, came):
        """Take frames until the request is whole (END_STREAM); answer with a frame that no stream may have."""
        sock.sendall(b"\0\0\0\4\0\0\0\0\0")  # settings
        came.read(len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
        while True:
            head = came.read(9)
            if len(head) < 9:
                return
            came.read(int.from_bytes(head[:3]))
            if head[3] in (0, 1) and head[4] & 1:
                break
        self.done += 1
        sock.sendall(b"\0\0\2\0\0\0\0\0\0ab")  # data of no stream

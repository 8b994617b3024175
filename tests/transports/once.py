"""A server on loopback for one connection, whose side of the talk each test writes itself."""

import contextlib
import socket
import threading


class Once:
    """Serves one client by ``talk(sock)``, which a subclass gives; a connection that breaks ends it."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(10)

    def _serve(self):
        with contextlib.suppress(OSError):
            sock, _ = self.listener.accept()
            sock.settimeout(20)
            with contextlib.closing(sock):
                self.talk(sock)

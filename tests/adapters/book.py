"""An independent book of what was done: one line for each effect, on disk before the tool answers."""

import os
from pathlib import Path


class Book:
    """A file that is only appended to; two processes may share it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def note(self, what: str) -> str:
        """Write one effect down."""
        file = os.open(self.path, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
        try:
            os.write(file, f"{what}\n".encode())
            os.fsync(file)
        finally:
            os.close(file)
        return f"sent to {what}"

    @property
    def lines(self) -> list[str]:
        """All effects, in order."""
        return self.path.read_text().splitlines() if self.path.exists() else []

    def mailer(self):
        """A tool that sends a mail."""

        def send_mail(to: str, text: str = "hi") -> str:
            """Send a mail."""
            return self.note(to)

        return send_mail

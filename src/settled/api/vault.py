"""What is kept of arguments and results: redacted, and encrypted where a key is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from settled.api.secrets import redact
from settled.errors import DeclarationError, JournalError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SEALED = b"f1:"
"""Marks data sealed with Fernet (AES-128-CBC and HMAC-SHA-256)."""


class Vault:
    """Locks what goes to the journal. Without a key it keeps data as it is, and redacts arguments."""

    def __init__(self, key: str | bytes | Sequence[str | bytes] | None) -> None:
        if key is not None and not key:
            raise DeclarationError("encryption_key is empty: leave it out, or give a key")
        self._fernet = _fernet(key) if key is not None else None

    @property
    def encrypts(self) -> bool:
        """Whether what is kept is encrypted."""
        return self._fernet is not None

    def shown(self, arguments: Mapping[str, Any], paths: Sequence[str]) -> Mapping[str, Any]:
        """Return the arguments as they may be kept: in full only if they will be encrypted."""
        return arguments if self.encrypts or not paths else redact(arguments, paths)

    def lock(self, data: bytes) -> bytes:
        """Return the data as it goes to the journal."""
        return data if self._fernet is None else SEALED + self._fernet.encrypt(data)

    def unlock(self, data: bytes) -> bytes:
        """Return the data as it was given. Raises ``JournalError`` without the right key."""
        if not data.startswith(SEALED):
            return data
        if self._fernet is None:
            raise JournalError("this record is encrypted: give Guard(encryption_key=…) the key it was written with")
        from cryptography.fernet import InvalidToken  # noqa: PLC0415 - an extra, imported only with a key

        try:
            return bytes(self._fernet.decrypt(data[len(SEALED) :]))
        except InvalidToken:
            raise JournalError("this record was encrypted with another key") from None


def _fernet(key: str | bytes | Sequence[str | bytes]) -> Any:
    try:
        from cryptography.fernet import Fernet, MultiFernet  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise DeclarationError("encryption_key needs the extra: pip install 'settled[encryption]'") from error
    keys = [key] if isinstance(key, str | bytes) else list(key)
    try:
        return MultiFernet([Fernet(each) for each in keys])
    except ValueError as error:
        raise DeclarationError("encryption_key is no Fernet key: make one with Fernet.generate_key()") from error

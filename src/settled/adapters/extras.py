"""What an adapter needs beside settled, and what to install where it is not there."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Import a framework within this. Raises ``ImportError`` with what to install if it is missing or too old."""
    try:
        yield
    except ImportError as error:
        raise ImportError(f"install it with `pip install 'settled[{extra}]'`: {error}") from error


__all__ = ["needs"]

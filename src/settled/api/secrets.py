"""Keeping secrets off the record: declared paths, and what is known to look like a secret in messages."""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, quote_plus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

REDACTED = "[redacted]"
_WORDS = (
    r"(?:(?:api|access|account|private|shared)[-_]?key|secret|token|passwo?r?d|passwd|pwd"
    r"|authorization|credential|cookie|session)"
)


_KINDS = (
    *("sk-", "sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_", "AIza", "ya29.", "eyJ", "SG.", "hf_", "npm_"),
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "xoxa-", "xoxs-", "xapp-"),
)
"""How keys and tokens begin whose makers let them be told by that: OpenAI, Anthropic, Stripe, Google, SendGrid, Hugging
Face, npm, GitHub, GitLab, Slack; ``eyJ`` is the first brace of a JSON web token."""


class _Pattern(NamedTuple):
    """What looks like a secret. Most messages hold none of ``words``: that is seen sooner than that nothing matches."""

    words: tuple[str, ...]
    """In lower case: one of them is in whatever matches."""
    pattern: re.Pattern[str]
    replacement: Callable[[re.Match[str]], str]
    """A function, since re reads a replacement with groups anew for each text, also where nothing is replaced."""


_PATTERNS = (
    _Pattern(
        ("settled1.",),
        re.compile(r"settled1\.[\w-]{8,}(?:\.[\w-]*)?"),  # a run's token, whole or cut off
        lambda _: REDACTED,
    ),
    _Pattern(
        ("bearer", "basic", "digest", "token"),
        re.compile(r"(?i)\b(bearer|basic|digest|token)\s+[A-Za-z0-9._~+/=-]{6,}"),
        lambda hit: f"{hit[1]} {REDACTED}",
    ),
    _Pattern(
        ("://",),
        re.compile(r"(?i)(://)[^/\s:@]*:[^/\s]+@"),  # to the last @: a password may hold one
        lambda hit: f"{hit[1]}{REDACTED}@",
    ),
    _Pattern(
        ("key", "secret", "token", "passw", "pwd", "authorization", "credential", "cookie", "session"),
        re.compile(
            r"(?i)(?<![\w-])(?=[\w-]++[\"']?\s*+[:=])"  # first whether it names a value at all: most words do not
            rf"([\w-]{{0,40}}?{_WORDS}[\w-]{{0,40}}[\"']?\s*[:=]\s*)(\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|[^\s,;&}}\])]+)"
        ),
        lambda hit: f"{hit[1]}{REDACTED}",
    ),
    _Pattern(
        ("sig", "key=", "credential"),
        re.compile(r"(?i)([?&;](?:x-(?:amz|goog)-(?:signature|credential)|sig|signature|key)=)[^&\s'\"<>]+"),
        lambda hit: f"{hit[1]}{REDACTED}",
    ),
    _Pattern(
        ("/bot", "/services/", "/webhook"),  # who knows such an address may write to a chat
        re.compile(r"(?i)(/bot\d{5,}:|/services/T\w+/B\w+/|/webhooks?/[\w-]{6,}/)[\w-]{12,}"),
        lambda hit: f"{hit[1]}{REDACTED}",
    ),
    _Pattern(
        tuple(name.lower() for name in _KINDS),
        re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, _KINDS))})[\w-]{{10,}}(?:\.[\w-]{{6,}})*"),
        lambda _: REDACTED,
    ),
)
LONGEST = 2000
"""Characters of a message that are kept."""
SHORTEST = 4
"""Characters below which a declared secret is not searched for in messages: it would hit innocent text."""
SHORTEST_LINE = 6
"""The same for one line of a secret of several lines."""


def redact(arguments: Mapping[str, Any], paths: Sequence[str]) -> dict[str, Any]:
    """Return the arguments with what the paths name replaced."""
    shown = dict(arguments)
    for path in paths:
        root, _, rest = path.partition(".")
        name = root.removesuffix("[]")
        if name in shown:
            shown[name] = _replaced(shown[name], _steps(root, rest))
    return shown


def _steps(root: str, rest: str) -> list[str]:
    each = ["[]"] if root.endswith("[]") else []
    steps = [part for name in rest.split(".") if name for part in _split(name)]
    return each + steps


def _split(name: str) -> list[str]:
    return [name.removesuffix("[]"), "[]"] if name.endswith("[]") else [name]


def _replaced(value: Any, steps: list[str]) -> Any:
    if not steps:
        return REDACTED
    if steps[0] == "[]":
        return [_replaced(item, steps[1:]) for item in value] if isinstance(value, list | tuple) else REDACTED
    if not isinstance(value, dict):
        return REDACTED
    return {key: _replaced(item, steps[1:]) if key == steps[0] else item for key, item in value.items()}


def hidden(arguments: Mapping[str, Any], paths: Sequence[str]) -> list[str]:
    """Return the texts that the paths hide, in each spelling that messages are searched for, longest first."""
    return spellings(texts(arguments, paths))


def texts(arguments: Mapping[str, Any], paths: Sequence[str]) -> frozenset[str]:
    """Return the texts that the paths hide, as they were given."""
    if not paths:
        return frozenset()
    return frozenset(_texts(arguments)) - frozenset(_texts(redact(arguments, paths)))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, bytes):
        yield value.decode(errors="replace")
        yield repr(value)[2:-1]
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


def spellings(given: Iterable[str]) -> list[str]:
    """Return secrets as errors spell them: stripped, line by line, escaped, quoted or encoded; longest first."""
    found = {spelt for secret in given for part in _parts(secret) for spelt in _spelt(part)}
    return sorted(found, key=len, reverse=True)


def _parts(secret: str) -> Iterator[str]:
    lines = [line.strip() for line in secret.splitlines()]
    yield from (part for part in (secret, secret.strip()) if len(part) >= SHORTEST and part.strip())
    yield from (line for line in lines if len(line) >= SHORTEST_LINE)


def _spelt(part: str) -> Iterator[str]:
    yield part
    coded = part.encode("utf-8", "surrogatepass")
    yield from (b64encode(coded).decode().rstrip("="), urlsafe_b64encode(coded).decode().rstrip("="), coded.hex())
    if part.isalnum() and part.isascii():
        return  # every other way to write it is the same
    yield repr(part)[1:-1]
    yield json.dumps(part)[1:-1]
    yield json.dumps(part, ensure_ascii=False)[1:-1]
    yield from (
        quote(part, errors="replace"),
        quote(part, safe="", errors="replace"),
        quote_plus(part, errors="replace"),
    )


def clean(message: str, secrets: Iterable[str] = ()) -> str:
    """Return a message fit to be kept and shown: without secrets, without control characters, bounded.

    ``secrets``: what is searched for, longest first.
    """
    for secret in secrets:
        message = message.replace(secret, REDACTED)
    message = message if len(message) <= LONGEST else message[:LONGEST] + "…"
    # Only of ASCII is it plain which letters are the same: re takes a dotless i for an i.
    lowered = message.lower() if message.isascii() else None
    for words, pattern, replacement in _PATTERNS:
        if lowered is None or any(map(lowered.__contains__, words)):
            message = pattern.sub(replacement, message)
    if message.isprintable():
        return message
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in message)

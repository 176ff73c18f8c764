"""One HTTP request to an endpoint, its key, and what of it may be shown."""

from __future__ import annotations

import email.utils
import http.client
import ipaddress
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stressrag.aligned.generators.base import Completion
from stressrag.errors import StressragError

_MOST = 16_000_000  # bytes of a reply; a server that sends for ever is cut off


@dataclass(frozen=True)
class Reply:
    """A status, with what was said or why not."""

    status: int
    reason: str
    completion: Completion | None = None


class Retry(Exception):
    """A try that failed and may be repeated, after ``after`` seconds where the server says so."""

    def __init__(self, reason: str, after: str | None = None, unreached: bool = False) -> None:
        super().__init__(reason)
        self.after = _seconds(after)
        self.unreached = unreached


def _seconds(after: str | None) -> float | None:
    """``Retry-After``, in seconds or as a date."""
    if not after:
        return None
    if re.fullmatch(r"\s*\d+(?:\.\d+)?\s*", after):
        return float(after)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(after).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def checked_url(url: str) -> str:
    """A base URL without a slash at the end.

    Raises
    ------
    StressragError
        When it is no http(s) URL with a host, or holds credentials or a query.
    """
    try:
        parts = urllib.parse.urlsplit(url.strip())
        host, _ = parts.hostname, parts.port
    except ValueError as e:
        raise StressragError(f"base_url is no URL: {e}") from None
    # The URL itself is not shown where it may hold a secret.
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise StressragError(
            "base_url must hold no user, password, query or fragment; a key goes into an environment variable"
        )
    if parts.scheme not in ("http", "https") or not host or re.search(r"[\s\x00-\x1f\x7f]", url.strip()):
        raise StressragError(f"base_url {url!r} is no http or https URL, such as http://localhost:8000/v1")
    return url.strip().rstrip("/").removesuffix("/chat/completions")


def is_private(url: str) -> bool:
    """Whether a URL points to this very machine."""
    host = urllib.parse.urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_key(variable: str) -> str:
    """The key in an environment variable; ``""`` without one.

    Raises
    ------
    StressragError
        When it cannot be sent in a header; the key itself is not shown.
    """
    key = os.environ.get(variable, "").strip() if variable else ""
    if not re.fullmatch(r"[!-~]*", key):
        raise StressragError(f"the key in ${variable} holds spaces or signs that no key has")
    return key


def scrub(text: str, key: str) -> str:
    """A text without the key, which some servers repeat in their errors."""
    return text.replace(key, "[key]") if key else text


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: it would carry the key to another place."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def post(url: str, body: bytes, key: str, timeout: float) -> tuple[int, Mapping[str, str], bytes]:
    """Status, headers and body of the reply to a JSON request.

    Raises
    ------
    OSError, http.client.HTTPException
        When no whole reply comes in time.
    """
    headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "stressrag"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(url, body, headers, method="POST")
    deadline = time.monotonic() + timeout
    try:
        reply = urllib.request.build_opener(_NoRedirect).open(request, timeout=timeout)
    except urllib.error.HTTPError as e:
        reply = e  # an error is a reply too
    with reply:
        return reply.status, reply.headers, _whole(reply, deadline)


def _whole(reply: Any, deadline: float) -> bytes:
    """The body, in pieces, so that a server that drips is not waited for without end."""
    parts: list[bytes] = []
    size = 0
    length = reply.headers.get("Content-Length")
    while piece := reply.read1(65536):
        parts.append(piece)
        size += len(piece)
        if time.monotonic() > deadline:
            raise TimeoutError
        if size > _MOST:
            raise http.client.HTTPException("too long")
    if length and length.isdecimal() and size < int(length):  # read1 does not mind
        raise http.client.IncompleteRead(b"", int(length) - size)
    return b"".join(parts)

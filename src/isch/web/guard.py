"""Checks before every request: who may send it, how large its body may be; and headers of every answer.

One ASGI layer, in this order: Host, token, origin and page token of changes, size and time of the body, headers.
"""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from secrets import compare_digest
from typing import Any
from urllib.parse import parse_qs, urlsplit

from isch.web.settings import Settings

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

COOKIE = "isch_token"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
HEADERS = {
    "content-security-policy": "default-src 'none'; img-src 'self' blob: data:; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


class Refused(Exception):
    """A request that is not served."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


class Guard:
    """The layer around an app."""

    def __init__(self, app: Any, settings: Settings) -> None:
        self._app, self._settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        visit = Visit(send, self._new_cookie(scope))
        try:
            self._check(scope, headers)
            await self._app(scope, self._bounded(receive, headers, visit), visit.send)
        except Refused as refused:
            visit.refused = refused
        await visit.finish()

    def _check(self, scope: Scope, headers: dict[str, str]) -> None:
        if not self._settings.allows_host(headers.get("host", "")):
            raise Refused(421, "this server does not answer to that host name")
        if self._settings.token is not None and not self._knows_token(scope, headers):
            raise Refused(401, "a token is needed: open the address that was printed when the server started")
        if scope["method"] not in SAFE:
            self._check_origin(headers)

    def _check_origin(self, headers: dict[str, str]) -> None:
        """A page of another site may not send anything here, even if the browser would allow it."""
        origin = headers.get("origin")
        if origin is not None and _site(origin) != headers.get("host", "").lower():
            raise Refused(403, "requests from other sites are not served")

    def _knows_token(self, scope: Scope, headers: dict[str, str]) -> bool:
        token = self._settings.token or ""
        given = [headers.get("authorization", "").removeprefix("Bearer "), _asked(scope)]
        return any(_equal(one, token) for one in given) or _equal(_cookie(headers), _digest(token))

    def _new_cookie(self, scope: Scope) -> str | None:
        """The cookie that keeps a browser in once it has opened the address with the token."""
        token = self._settings.token
        if token is None or not _equal(_asked(scope), token):
            return None
        return f"{COOKIE}={_digest(token)}; HttpOnly; SameSite=Strict; Path=/"

    def _bounded(self, receive: Receive, headers: dict[str, str], visit: "Visit") -> Receive:
        upload = headers.get("content-type", "").startswith("multipart/form-data")
        limit = self._settings.upload_bytes if upload else self._settings.body_bytes
        seconds = self._settings.upload_seconds
        declared = headers.get("content-length", "0")
        if not declared.isdecimal() or int(declared) > limit:
            raise Refused(413, f"the request is larger than {limit >> 20} MiB")
        deadline, total = asyncio.get_running_loop().time() + seconds, 0

        async def bounded() -> MutableMapping[str, Any]:
            nonlocal total
            if visit.read:
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise visit.refuse(408, f"the request took longer than {seconds:g} s to arrive") from None
            total += len(message.get("body", b""))
            visit.read = not message.get("more_body", False)
            if total > limit:
                raise visit.refuse(413, f"the request is larger than {limit >> 20} MiB")
            return message

        return bounded


class Visit:
    """One request on its way: adds our headers to the answer, or gives a refusal instead of it."""

    def __init__(self, send: Send, cookie: str | None) -> None:
        self._send, self._cookie = send, cookie
        self._started = False
        self.read = False  # whether the whole body has arrived
        self.refused: Refused | None = None

    def refuse(self, status: int, detail: str) -> Refused:
        """Refuse, whatever the app makes of the error; gives the error to raise."""
        self.refused = Refused(status, detail)
        return self.refused

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Pass on what the app answers, unless the request was refused before it began to."""
        if self.refused is not None and not self._started:
            return
        await self._pass_on(message)

    async def finish(self) -> None:
        """Give the refusal, if there is one and nothing was answered yet."""
        if self.refused is None or self._started:
            return
        body = json.dumps({"detail": self.refused.detail}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await self._pass_on({"type": "http.response.start", "status": self.refused.status, "headers": headers})
        await self._pass_on({"type": "http.response.body", "body": body})

    async def _pass_on(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._started = True
            extra = HEADERS | ({"set-cookie": self._cookie} if self._cookie else {})
            extra |= {} if self.read or message["status"] < 400 else {"connection": "close"}  # the rest is not wanted
            message["headers"] = [*message["headers"], *((k.encode(), v.encode()) for k, v in extra.items())]
        await self._send(message)


def _site(origin: str) -> str:
    """The host and port of an origin; nothing of what is no address."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _asked(scope: Scope) -> str:
    query: str = scope.get("query_string", b"").decode("latin-1")
    return parse_qs(query).get("token", [""])[0]


def _cookie(headers: dict[str, str]) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return str(found.value) if found else ""


def _digest(token: str) -> str:
    """What a browser keeps instead of the token, which may have characters that a cookie cannot hold."""
    return hashlib.sha256(token.encode()).hexdigest()


def _equal(given: str, token: str) -> bool:
    return compare_digest(given.encode(), token.encode())

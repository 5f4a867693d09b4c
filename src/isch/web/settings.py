"""The settings of the server."""

import ipaddress
from dataclasses import dataclass, field
from secrets import token_urlsafe
from urllib.parse import quote

from isch.errors import ParameterError

LEAST_TOKEN = 16  # characters
AUTO = "auto"  # instead of a token: a new one is made


@dataclass(frozen=True)
class Settings:
    """Where the server listens, who may use it, and how much one request may cost.

    Parameters
    ----------
    host, port : str, int
        The address to listen on. Any address but loopback needs a token.
    token : str, optional
        What a client must know: ``?token=…`` once in the browser, or ``Authorization: Bearer …``.
    upload_bytes : int
        The largest body of a request with a picture.
    body_bytes : int
        The largest body of any other request.
    upload_seconds : float
        The longest that a client may take to send it.
    decode_seconds : float
        The longest that decoding a picture may take.
    """

    host: str = "127.0.0.1"
    port: int = 8765
    token: str | None = None
    upload_bytes: int = 64 << 20
    body_bytes: int = 4 << 20
    upload_seconds: float = 30.0
    decode_seconds: float = 20.0
    page_token: str = field(default_factory=token_urlsafe)  # known to our own page only, needed for every change

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ParameterError(f"port must be between 0 and 65535; got {self.port}")
        if self.token is not None and len(self.token) < LEAST_TOKEN:
            raise ParameterError(f"the token must have at least {LEAST_TOKEN} characters; got {len(self.token)}")
        if self.token is None and not is_loopback(self.host):
            raise ParameterError(
                f"listening on {self.host} lets others on the network in: give --token auto or a --token of at least "
                f"{LEAST_TOKEN} characters, or listen on 127.0.0.1"
            )

    @property
    def address(self) -> str:
        """The page's address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/" + (f"?token={quote(self.token, safe='')}" if self.token else "")

    def allows_host(self, header: str) -> bool:
        """Whether a Host header names this server: a page of another name must not reach it by a rebound DNS name."""
        name = header.rpartition(":")[0] if header.rpartition(":")[2].isdigit() else header
        name = name.strip("[]").lower()
        if name == "localhost" or is_loopback(name):
            return True
        return self.token is not None and (name == self.host.lower() or _is_address(name))


def new_token() -> str:
    """A token that nobody can guess."""
    return token_urlsafe(24)


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine only."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True

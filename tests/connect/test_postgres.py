"""What only a server can do to us: not answer, ask for a password, hang up."""

import socket
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from isch.errors import FileError, IschError, ParameterError

psycopg = pytest.importorskip("psycopg", reason="the package psycopg is not installed")

from isch.connect import pgserver as module  # noqa: E402
from isch.connect.postgres import Postgres  # noqa: E402

SECRET = "open-sesame"


def refused(url: str, hasher: Any) -> str:
    start = time.monotonic()
    with pytest.raises(IschError) as caught:
        Postgres(url, "photos", hasher, create=True)
    assert time.monotonic() - start < 12
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value.__context__) or caught.value.__suppress_context__
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_unreachable_server(world: Any) -> None:
    assert "cannot be reached" in refused(f"postgresql://me:{SECRET}@127.0.0.1:1/x", world.hasher)
    assert "cannot be reached" in refused(f"postgresql://me:{SECRET}@nowhere.invalid/x", world.hasher)


def test_a_server_that_says_nothing(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.CONNECT_SECONDS == 10
    monkeypatch.setattr(module, "CONNECT_SECONDS", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert "cannot be reached" in refused(f"postgresql://me:{SECRET}@127.0.0.1:{port}/x", world.hasher)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET}@[/x",
        f"nonsense {SECRET}",
        f"postgresql://?p{SECRET}=1",
        f"postgresql://me:{SECRET}%zz@x",
    ],
)
def test_an_address_that_is_none(world: Any, url: str) -> None:
    assert "expected postgresql://user@host/database" in refused(url, world.hasher)


@pytest.mark.parametrize(
    "rest",
    [
        f"me:p@{SECRET}@127.0.0.1:1/x",
        f"me:{SECRET}@ss@127.0.0.1:1/x",
        f"me:12/{SECRET}@127.0.0.1:1/x",
        f"me@{SECRET}:p@127.0.0.1:1/x",
        f"127.0.0.1:1/x?user=me&password=p@{SECRET}",
    ],
)
def test_a_password_that_can_be_cut_in_two_is_not_shown_in_part(world: Any, rest: str) -> None:
    assert "%40 for @" in refused(f"postgresql://{rest}", world.hasher)


def test_a_password_of_one_letter_leaves_messages_as_they_are(world: Any) -> None:
    messages = [refused(f"postgresql://me{password}@127.0.0.1:1/x", world.hasher) for password in ("", ":e", ":c")]
    assert messages[0] == messages[1] == messages[2]
    assert "***" not in messages[0]


def wait_for_rules(url: str, loaded: Any) -> None:
    for _ in range(100):
        with psycopg.connect(url) as connection:
            if connection.execute("SELECT pg_conf_load_time()").fetchone()[0] > loaded:
                return
        time.sleep(0.1)
    pytest.fail("the server does not read its rules again")


def test_a_wrong_password_is_never_shown(postgres: str, world: Any) -> None:
    host = parse_qs(urlsplit(postgres).query)["host"][0]
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE ROLE careful LOGIN PASSWORD 'the right one'")
        rules = Path(connection.execute("SHOW hba_file").fetchone()[0])
        rules.write_text("local all careful scram-sha-256\n" + rules.read_text())
        loaded = connection.execute("SELECT pg_conf_load_time(), pg_reload_conf()").fetchone()[0]
    wait_for_rules(postgres, loaded)
    message = refused(f"postgresql://careful:{SECRET}@/postgres?host={host}", world.hasher)
    assert "password authentication failed" in message


def test_a_lost_connection_is_made_again(postgres: str, world: Any) -> None:
    with Postgres(postgres, "lost", world.hasher, replace=True) as store:
        store.add(world.keys[:20], world.features[:20])
        for work in (lambda: store.add(world.keys[20:40], world.features[20:40]), lambda: store.search(world.queries)):
            with psycopg.connect(postgres, autocommit=True) as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s",
                    [store._server.connection.info.backend_pid],
                )
            work()
        assert len(store) == 40


def test_a_table_that_vanished_is_an_error_at_once(postgres: str, world: Any) -> None:
    with Postgres(postgres, "vanished", world.hasher, replace=True) as store:
        with psycopg.connect(postgres, autocommit=True) as other:
            other.execute("DROP TABLE vanished")
        with pytest.raises(FileError, match="does not exist"):
            store.add(world.keys[:20], world.features[:20])


@pytest.mark.parametrize("table", ["", "x" * 64, "a\0b"])
def test_names_that_postgresql_has_not(postgres: str, world: Any, table: str) -> None:
    with pytest.raises(ParameterError, match="a name of 1 to 63 bytes"):
        Postgres(postgres, table, world.hasher, create=True)


def test_longer_codes_than_hnsw_takes(postgres: str) -> None:
    with pytest.raises(IschError, match="takes up to 64000 bits; got 64008"):
        Postgres(postgres, "long", n_bits=64_008, kind="hnsw", create=True)
    with psycopg.connect(postgres) as connection:
        assert connection.execute("SELECT to_regclass('long')").fetchone() == (None,)

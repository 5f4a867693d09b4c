import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading

import pytest

from isch.errors import FileError, FormatError, InputError, IschError
from isch.photos.decisions import Decisions, Verdict

A, B, C, D = sorted(hashlib.sha256(name).hexdigest() for name in (b"a", b"b", b"c", b"d"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "decisions.sqlite"


def verdicts(decisions):
    return {(d.first, d.second): d.verdict for d in decisions.all()}


def test_decisions_are_remembered(path):
    with Decisions(path) as decisions:
        decisions.not_duplicates([C, A])
        decisions.keep_all([A, B])
        decisions.keep_one(D, [A, B])
    with Decisions(path) as decisions:
        assert verdicts(decisions) == {
            (A, C): Verdict.DIFFERENT,
            (A, B): Verdict.BOTH,
            (A, D): Verdict.SECOND,
            (B, D): Verdict.SECOND,
        }
        assert decisions.verdict(D, A) is Verdict.FIRST
        assert decisions.verdict(A, D) is Verdict.SECOND
        assert decisions.verdict(C, A) is Verdict.DIFFERENT
        assert decisions.verdict(C, D) is None
        assert decisions.apart() == {(A, C), (A, B)}


def test_every_two_of_several_are_decided(path):
    with Decisions(path) as decisions:
        decisions.not_duplicates([A, B, C])
        assert set(verdicts(decisions)) == {(A, B), (A, C), (B, C)}


def test_a_later_decision_replaces_an_earlier_one_and_can_be_forgotten(path):
    with Decisions(path) as decisions:
        decisions.keep_all([A, B])
        decisions.not_duplicates([B, A])
        assert verdicts(decisions) == {(A, B): Verdict.DIFFERENT}
        decisions.not_duplicates([A, C])
        decisions.forget([A, B])
        assert verdicts(decisions) == {(A, C): Verdict.DIFFERENT}


def test_files_with_the_same_content_can_be_decided_on(path):
    with Decisions(path) as decisions:
        decisions.keep_all([A, A, B])
        assert verdicts(decisions) == {(A, A): Verdict.BOTH, (A, B): Verdict.BOTH}
        assert decisions.verdict(A, A) is Verdict.BOTH
        assert decisions.apart() == {(A, A), (A, B)}
        decisions.keep_one(A, [A])
        assert decisions.verdict(A, A) is Verdict.FIRST
        decisions.forget([A])
        assert verdicts(decisions) == {(A, B): Verdict.BOTH}


def test_decisions_among_some_pictures(path):
    many = sorted(hashlib.sha256(str(i).encode()).hexdigest() for i in range(1500))
    with Decisions(path) as decisions:
        decisions.keep_one(many[700], many[:700] + many[701:])
        assert len(decisions.among(many)) == 1499
        assert [d.first for d in decisions.among([many[0], many[1], many[700]])] == many[:2]
        assert decisions.among([many[0], many[1]]) == decisions.among([]) == []


def test_what_is_no_hash_is_refused(path):
    with Decisions(path) as decisions:
        for wrong in ("", "abc", A.upper(), A + "0", "/etc/passwd".ljust(64, "x"), None, 5):
            with pytest.raises(InputError, match="64 hexadecimal digits"):
                decisions.not_duplicates([A, wrong])
        assert decisions.all() == []


def test_threads_and_connections_share_a_file(path):
    hashes = [hashlib.sha256(bytes([i])).hexdigest() for i in range(64)]
    with Decisions(path) as one, Decisions(path) as other:
        work = [threading.Thread(target=(one, other)[i % 2].not_duplicates, args=([A, hashes[i]],)) for i in range(64)]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        assert len(one.all()) == len(other.all()) == 64


def test_two_that_make_the_file_at_once_do_not_quarrel(path):
    errors = []

    def begin():
        try:
            Decisions(path).close()
        except IschError as error:
            errors.append(error)

    threads = [threading.Thread(target=begin) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


WRITER = """
import hashlib, sys
from isch.photos.decisions import Decisions
with Decisions(sys.argv[1]) as decisions:
    for i in range(10_000):
        hashes = [hashlib.sha256(f"{i} {j}".encode()).hexdigest() for j in range(4)]
        decisions.keep_all(hashes)
        print(i, flush=True)
"""


def test_killed_at_any_moment_nothing_acknowledged_is_lost_and_nothing_is_half(path):
    for after in (1, 7, 23):
        with subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True) as process:
            acknowledged = [process.stdout.readline() for _ in range(after)]
            process.send_signal(signal.SIGKILL)
            acknowledged += process.stdout.readlines()
        with Decisions(path) as decisions:
            count = len(decisions.all())
        assert count % 6 == 0
        assert count >= 6 * len(acknowledged)


def read(path):
    """What a file says, or the sentence with which it is refused."""
    try:
        with Decisions(path) as decisions:
            return verdicts(decisions)
    except FileError as error:
        return str(error)


def test_no_damage_is_believed(path):
    """Bytes of the file changed in turn: the decisions are the same, or the file is refused in one sentence."""
    with Decisions(path) as decisions:
        decisions.not_duplicates([A, B])
        decisions.keep_one(C, [D])
    expected, intact = read(path), path.read_bytes()
    for at in (*range(200), *range(200, len(intact), 37)):
        damaged = bytearray(intact)
        damaged[at] ^= 0x55
        path.write_bytes(damaged)
        found = read(path)
        assert found == expected or (str(path) in found and "\n" not in found)


@pytest.mark.parametrize("content", [b"no database", b"SQLite format 3\0" + b"\xff" * 4000, b"\0" * 4096])
def test_another_file_is_refused_and_left_alone(path, content):
    path.write_bytes(content)
    with pytest.raises(FileError, match="decisions.sqlite"):
        Decisions(path)
    assert path.read_bytes() == content


def test_another_database_is_refused(path):
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE t (x)")
    other.close()
    with pytest.raises(FormatError, match="not one of decisions about duplicates"):
        Decisions(path)


def test_a_newer_version_is_refused(path):
    Decisions(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 9")
    connection.close()
    with pytest.raises(FormatError, match="has format version 9; this ISCH reads up to 1"):
        Decisions(path)


def test_a_missing_folder_and_a_folder_are_refused(tmp_path):
    with pytest.raises(FileError, match="the folder .* does not exist"):
        Decisions(tmp_path / "none" / "x.sqlite")
    with pytest.raises(FileError):
        Decisions(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_cannot_be_written_is_named(path):
    Decisions(path).close()
    path.chmod(0o400)
    with Decisions(path) as decisions, pytest.raises(FileError, match="decisions.sqlite"):
        decisions.keep_all([A, B])


def test_a_closed_one_says_so(path):
    decisions = Decisions(path)
    decisions.close()
    with pytest.raises(FileError, match="closed"):
        decisions.all()

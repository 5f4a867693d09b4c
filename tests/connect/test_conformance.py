"""Every engine answers as isch.Index does."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isch
from isch import connect
from isch.codes import unpack
from isch.connect.store import Store
from isch.errors import FileError, FormatError, InputError, IschError, MissingExtra, ParameterError

pytestmark = pytest.mark.filterwarnings("ignore:pkg_resources is deprecated")  # Milvus Lite uses it

K = 10
ALL = 600 / K  # times k: as many candidates as there are items
WHERE = [
    {"even": True},
    {"i": {">=": 100, "<": 200}},
    {"text": ["x1", "x2"]},
    {"text": {"<": "x3"}},
    [{"text": {"!=": "x1"}}, {"i": {"<": 50}}],
    {"it's": None, "size": {"<=": 20.125}},
    {"text": [True, 1]},
]


@dataclass(frozen=True)
class Engine:
    """An engine with one kind of its indexes, and where its stores go."""

    name: str
    kind: str | None
    exact: bool
    place: Any = None  # a folder, or the address of a server
    numbers: Any = None

    def __str__(self) -> str:
        return self.name if self.kind is None else f"{self.name}-{self.kind}"

    def fresh(self) -> str:
        """A name that no store has yet."""
        return f"photos_{next(self.numbers)}"

    def open(self, name: str, encoder: Any = None, **options: Any) -> Store:
        kind = {} if self.kind is None else {"kind": self.kind}
        where = (self.place / name,) if connect.ENGINES[self.name].place == connect.FILE else (self.place, name)
        return isch.connect.engine(self.name)(*where, encoder, **kind, **options)

    def create(self, name: str, encoder: Any = None, **options: Any) -> Store:
        return self.open(name, encoder, create=True, **options)


EXEMPT = {("milvus", "ivf"): "Milvus Lite has no such index"}
ENGINES = [
    Engine(name, kind, kind not in connect.APPROXIMATE)
    for name, facts in connect.ENGINES.items()
    for kind in facts.kinds or (None,)
    if (name, kind) not in EXEMPT
]
NUMBERS = count()


@pytest.fixture(scope="module", params=ENGINES, ids=str)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    asked = request.param
    folder = tmp_path_factory.mktemp(asked.name)
    place = {"postgres": lambda: request.getfixturevalue("postgres"), "milvus": lambda: str(folder / "lite.db")}
    found = Engine(asked.name, asked.kind, asked.exact, place.get(asked.name, lambda: folder)(), NUMBERS)
    try:
        found.create(found.fresh(), n_bits=8).close()
    except MissingExtra as error:
        pytest.skip(str(error))
    return found


def test_the_page_on_engines_names_every_kind_in_the_order_of_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "engines.md").read_text()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| ") and line.count("|") == 6]
    named = {cells[0].strip("| ").split()[0].lower(): re.findall("`([a-z]+)`", cells[1]) for cells in rows}
    named["postgres"] = named.pop("postgresql")
    outside = {name: list(facts.kinds) for name, facts in connect.ENGINES.items() if name != "local"}
    assert {name: named[name] for name in outside} == outside


@pytest.fixture(scope="module")
def full(engine: Engine, worlds: Any) -> Iterator[Callable[[int], Store]]:
    """Stores that hold all items of a length; nobody changes them."""
    made: dict[int, Store] = {}

    def get(n_bits: int) -> Store:
        if n_bits not in made:
            world = worlds[n_bits]
            made[n_bits] = store = engine.create(engine.fresh(), world.hasher)
            store.add(world.keys, world.features, world.metadata)
            store.finish()
        return made[n_bits]

    yield get
    for store in made.values():
        store.close()


def recall(engine: Engine, got: Any, expected: Any) -> None:
    """Equal distances, or nearly all of them for an approximate index."""
    if engine.exact:
        np.testing.assert_array_equal(got, expected)
    else:
        assert got.shape == expected.shape
        assert np.mean(got <= expected.max(axis=1, keepdims=True)) >= 0.9


def distances(world: Any, results: Any) -> Any:
    """The distances between queries and the items found, worked out bit by bit."""
    bits, rows = unpack(world.codes, world.hasher.n_bits), {key: row for row, key in enumerate(world.keys)}
    asked = unpack(world.hasher.transform(world.queries), world.hasher.n_bits)
    return np.array([[(asked[i] != bits[rows[key]]).sum() for key in keys] for i, keys in enumerate(results.keys)])


@pytest.mark.parametrize("n_bits", [13, 64, 256])
def test_search_gives_the_distances_of_nearest(engine: Engine, full: Any, worlds: Any, n_bits: int) -> None:
    world, store = worlds[n_bits], full(n_bits)
    assert len(store) == len(world.keys)
    assert store.n_bits == n_bits
    results = store.search(world.queries, K, rerank=None)
    expected, _ = isch.nearest(world.hasher.transform(world.queries), world.codes, K)
    recall(engine, results.distances, expected)
    np.testing.assert_array_equal(results.distances, distances(world, results))
    assert results.scores is None
    assert all(len(set(keys)) == K for keys in results.keys)
    notes = dict(zip(world.keys, world.metadata, strict=True))
    assert results.metadata == [[notes[key] for key in keys] for keys in results.keys]


def test_a_hundred_thousand_real_codes(engine: Engine, real: Any) -> None:
    """Exact kinds agree with isch.nearest; approximate ones, which take long to build, come near it on a fifth."""
    name, codes = engine.fresh(), real.codes if engine.exact else real.codes[::5]
    with engine.create(name, real.hasher) as store:
        store.add_codes(range(len(codes)), codes)
        store.finish()
    with engine.open(name) as store:  # without the model, so that queries are codes
        assert len(store) == len(codes)
        found = store.search(real.queries, K)
    rows = np.array(found.keys)
    apart = unpack(codes[rows.ravel()], 128).reshape(*rows.shape, 128) != unpack(real.queries, 128)[:, None]
    np.testing.assert_array_equal(found.distances, apart.sum(axis=2))  # each key is that of a row so far away
    assert all(len(set(keys)) == K for keys in found.keys)
    expected, _ = isch.nearest(real.queries, codes, K)
    if engine.exact:
        np.testing.assert_array_equal(found.distances, expected)
    reached = float(np.mean(found.distances <= expected[:, -1:]))
    assert reached >= 0.95, f"recall@10 is {reached:.3f}"


@pytest.mark.parametrize("n_bits", [13, 256])
def test_reranking_gives_the_scores_of_the_index(engine: Engine, full: Any, worlds: Any, n_bits: int) -> None:
    world = worlds[n_bits]
    options = {"rerank": "asymmetric", "oversample": ALL}
    got, expected = (one.search(world.queries, K, **options) for one in (full(n_bits), world.index))
    if engine.exact:
        np.testing.assert_allclose(got.scores, expected.scores, rtol=1e-5, atol=1e-5)
    assert np.mean(got.scores <= expected.scores.max(axis=1, keepdims=True) + 1e-4) >= 0.9
    np.testing.assert_array_equal(got.distances, distances(world, got))
    automatic = full(n_bits).search(world.queries, K)
    assert (np.diff(automatic.scores) >= 0).all()


@pytest.mark.parametrize("where", WHERE, ids=str)
def test_filters_are_those_of_the_index(engine: Engine, full: Any, world: Any, where: Any) -> None:
    got, expected = (one.search(world.queries, K, where=where, rerank=None) for one in (full(64), world.index))
    assert all(isch.search.filters.fits(note, where) for notes in got.metadata for note in notes)
    if expected.distances.size:
        recall(engine, got.distances, expected.distances)
    else:
        assert not got.distances.size


def test_adding_again_changes_nothing_and_other_rows_replace(engine: Engine, world: Any) -> None:
    with engine.create(engine.fresh(), world.hasher) as store:
        for _ in range(2):
            store.add(world.keys[:20], world.features[:20], world.metadata[:20])
            assert len(store) == 20
        store.add(world.keys[3], world.features[100], {"new": 1})
        assert len(store) == 20
        hit = store.search(world.features[100], 1)[0][0]
        assert (hit.key, hit.distance, hit.metadata) == (world.keys[3], 0, {"new": 1})


def test_deleted_items_are_not_found(engine: Engine, world: Any) -> None:
    with engine.create(engine.fresh(), world.hasher) as store:
        store.add(world.keys[:20], world.features[:20])
        store.delete([*world.keys[:3], "nobody", -1])
        assert len(store) == 17
        found = store.search(world.features[:3], 20, rerank=None).keys
        assert all(set(keys) == set(world.keys[3:20]) for keys in found)
        store.delete(world.keys[3:20])
        assert len(store) == 0
        assert store.search(world.features[:2], 5).keys == [[], []]


def test_a_number_and_its_spelling_are_two_keys(engine: Engine, world: Any) -> None:
    with engine.create(engine.fresh(), world.hasher) as store:
        keys = [7, "7", -(2**63), 2**63 - 1, "'); DROP TABLE photos; --", "i:7", "", "日本"]
        store.add(keys, world.features[:8])
        assert [store.search(row, 1)[0][0].key for row in world.features[:8]] == keys
        store.delete(["7", ""])
        assert set(store.search(world.features[0], 8).keys[0]) == set(keys) - {"7", ""}


def test_what_was_closed_is_there_again(engine: Engine, world: Any) -> None:
    name = engine.fresh()
    with engine.create(name, world.hasher) as store:
        store.add(world.keys[:50], world.features[:50], world.metadata[:50])
    with engine.open(name, world.hasher) as store:
        assert len(store) == 50
        assert store.search(world.features[9], 1)[0][0].key == world.keys[9]
    with engine.open(name) as store:  # without the model it takes codes
        assert store.search(world.codes[9], 1)[0][0].key == world.keys[9]


def test_another_model_is_refused_by_name(engine: Engine, world: Any) -> None:
    name = engine.fresh()
    engine.create(name, world.hasher).close()
    other = isch.ITQ(n_bits=32).fit(world.features)
    with pytest.raises(InputError, match="holds codes of 64 bits; got codes of 32 bits"):
        engine.open(name, other)
    with pytest.raises(InputError, match=r"holds codes of another model \(lsh, .*; got sklsh, "):
        engine.open(name, isch.SKLSH(n_bits=64).fit(world.features))
    with engine.open(name, other, replace=True) as store:
        assert (len(store), store.n_bits) == (0, 32)


def test_opening_a_mistyped_name_creates_nothing(engine: Engine, world: Any) -> None:
    name, typo = engine.fresh(), engine.fresh()
    engine.create(name, world.hasher).close()
    for options in ({}, {"encoder": world.hasher}, {"n_bits": 64}):
        with pytest.raises(FileError, match="does not exist; stores there: ") as caught:
            engine.open(typo, **options)
        assert name in str(caught.value), "the stores that exist are named"
        assert ("create=True makes it" in str(caught.value)) == bool(options)
        assert "\n" not in str(caught.value)
    with pytest.raises(FileError, match="does not exist"):
        engine.open(typo)
    with engine.open(typo, world.hasher, replace=True) as store:  # a replacement is made also where there was nothing
        assert len(store) == 0


def test_creating_what_exists_opens_it(engine: Engine, world: Any) -> None:
    name = engine.fresh()
    with engine.create(name, world.hasher) as store:
        store.add(world.keys[:20], world.features[:20])
    with engine.create(name, world.hasher) as store:
        assert len(store) == 20
    with engine.create(name) as store:
        assert len(store) == 20


def test_replacing_begins_anew(engine: Engine, world: Any) -> None:
    name = engine.fresh()
    with engine.create(name, world.hasher) as store:
        store.add(world.keys[:20], world.features[:20])
    with pytest.raises(IschError):
        engine.open(name, "nothing.safetensors", replace=True)
    with engine.open(name, world.hasher) as store:
        assert len(store) == 20, "a model that cannot be read must cost nothing"
    with engine.open(name, world.hasher, replace=True) as store:
        store.add(world.keys[30:35], world.features[30:35])
    with engine.open(name, world.hasher) as store:
        assert set(store.search(world.features[30], 9).keys[0]) == set(world.keys[30:35])


@pytest.mark.parametrize("name", ["photos'; DROP TABLE photos; --", 'a"b', "SELECT", "x" * 70])
def test_any_name_works_or_is_refused_in_one_sentence(engine: Engine, world: Any, name: str) -> None:
    try:
        store = engine.create(name, world.hasher)
    except IschError as error:
        store, message = None, str(error)
    if store is None:
        assert "\n" not in message
        return
    with store:
        store.add(world.keys[:5], world.features[:5])
        assert len(store) == 5


def test_bad_input_is_one_sentence(engine: Engine, world: Any) -> None:
    with engine.create(engine.fresh(), world.hasher) as store:
        with pytest.raises(InputError, match="given twice"):
            store.add(["a", "a"], world.features[:2])
        with pytest.raises(InputError, match="expected one key for each of 2 rows"):
            store.add(["a"], world.features[:2])
        with pytest.raises(InputError, match="expected 32 columns"):
            store.add(["a"], world.features[:1, :5])
        with pytest.raises(ParameterError, match="k must be"):
            store.search(world.queries, 0)
        with pytest.raises(InputError, match="needs the features|made with keep_features"):
            store.search(world.queries, rerank="exact")
        with pytest.raises(InputError, match="operator of where field"):
            store.search(world.queries, where={"a": {"; DROP TABLE": 1}})
        assert len(store) == 0
    with pytest.raises(InputError, match="does not exist; making it needs n_bits"):
        engine.create(engine.fresh())
    if engine.kind is not None:
        with pytest.raises(ParameterError, match="unknown kind 'best'"):
            Engine(engine.name, "best", True, engine.place).create("other", world.hasher)


def test_all_items_can_be_read_again(engine: Engine, worlds: Any) -> None:
    world = worlds[13]
    with engine.create(engine.fresh(), world.hasher) as store:
        store.add(world.keys, world.features, world.metadata)
        store.delete(world.keys[:3])
        for _ in range(2):  # any number of times
            found = [row for batch in store.batches() for row in zip(*batch[:3], strict=True)]
            assert {key for key, _, _ in found} == set(world.keys[3:])
            rows = {key: row for row, key in enumerate(world.keys)}
            assert all((code == world.codes[rows[key]]).all() for key, code, _ in found)
            assert all(note == world.metadata[rows[key]] for key, _, note in found)


def test_codes_without_a_model(engine: Engine, worlds: Any) -> None:
    world = worlds[13]
    with engine.create(engine.fresh(), n_bits=13) as store:
        store.add_codes(world.keys[:30], world.codes[:30])
        assert store.search(world.codes[4], 1)[0][0].distance == 0
        with pytest.raises(InputError, match="the bits after bit 13 of a code must be zero"):
            store.add_codes(["x"], np.full((1, 2), 255, np.uint8))


def strange(engine: Engine, name: str) -> str:
    """Put something of somebody else in the place of a store; gives what tells the two apart."""
    if engine.name == "postgres":
        import psycopg

        with psycopg.connect(engine.place) as connection:
            connection.execute(f"CREATE TABLE {name} (key text, price integer)")
        return "got key text, price integer"
    if engine.name == "lancedb":
        import lancedb

        lancedb.connect(engine.place).create_table(name, [{"key": "a", "price": 2}])
        return "got key, price"
    if engine.name == "milvus":
        import pymilvus

        pymilvus.MilvusClient(engine.place).create_collection(name, dimension=4)
        return "got id, vector"
    if engine.name == "local":
        (engine.place / name).mkdir()
        (engine.place / name / "diary.txt").write_text("of somebody else")
        return "not an ISCH index"
    (engine.place / name).write_bytes(b"of somebody else")
    return "items does not"


def test_what_somebody_else_made_is_refused(engine: Engine, world: Any) -> None:
    name = engine.fresh()
    difference = strange(engine, name)
    with pytest.raises(FormatError, match=difference) as caught:
        engine.open(name, world.hasher)
    if engine.name == "local":  # a folder may hold anything, so not even --replace touches it
        with pytest.raises(FormatError, match=difference):
            engine.open(name, world.hasher, replace=True)
        assert (engine.place / name / "diary.txt").exists()
        return
    assert "--replace overwrites it" in str(caught.value)
    with engine.open(name, world.hasher, replace=True) as store:
        store.add(world.keys[:5], world.features[:5])
        assert len(store) == 5


@pytest.mark.parametrize("content", [b"", b"junk" * 100])
def test_a_damaged_engine_file_is_built_again(engine: Engine, world: Any, content: bytes) -> None:
    if engine.name not in ("faiss", "usearch"):
        pytest.skip("only faiss and usearch are files of ours")
    name = engine.fresh()
    with engine.create(name, world.hasher) as store:
        store.add(world.keys[:50], world.features[:50])
    (engine.place / name).write_bytes(content)
    with engine.open(name, world.hasher) as store:
        assert store.search(world.features[9], 1)[0][0].key == world.keys[9]
    (engine.place / f"{name}.items").write_bytes(content or b"x")
    with pytest.raises(FileError, match="damaged"):
        engine.open(name, world.hasher)

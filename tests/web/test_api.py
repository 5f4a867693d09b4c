import csv
import io
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from starlette.testclient import TestClient

from isch.locks import locked
from isch.photos import duplicates, updating
from isch.photos.catalog import Filter
from isch.photos.duplicates import Duplicates
from isch.photos.library import Library
from isch.web.app import create
from isch.web.context import Updater
from isch.web.settings import Settings
from isch.web.thumbnails import Thumbnails

from .conftest import STRANGE, drawing, encoded, make_pictures


def by_name(client: TestClient) -> dict[str, dict[str, Any]]:
    return {item["name"]: item for item in client.get("/api/items?limit=500").json()["items"]}


def test_the_collection_comes_page_by_page(client: TestClient) -> None:
    whole = client.get("/api/items").json()
    assert (whole["total"], len(whole["items"])) == (11, 11)
    pages = [client.get(f"/api/items?offset={o}&limit=4").json()["items"] for o in (0, 4, 8)]
    assert [item for page in pages for item in page] == whole["items"]
    assert client.get("/api/items?offset=99").json()["items"] == []
    assert {item["folder"] for item in client.get("/api/items?folder=a").json()["items"]} == {"a"}
    first = whole["items"][0]
    assert client.get(f"/api/items/{first['id']}").json() == first
    assert STRANGE in by_name(client)


def test_a_thumbnail_is_a_small_jpeg_and_is_kept(client: TestClient, library: Library) -> None:
    number = by_name(client)["2.jpg"]["id"]
    for size, side in ((256, 256), (1600, 320)):
        response = client.get(f"/api/items/{number}/thumbnail?size={size}")
        assert response.headers["content-type"] == "image/jpeg"
        assert max(Image.open(io.BytesIO(response.content)).size) == side
    assert len(list((library.home / "thumbnails").rglob("*.jpg"))) >= 2
    assert client.get(f"/api/items/{number}/thumbnail?size=9999").status_code == 400


@pytest.mark.parametrize("left", [b"", b"\xff\xd8half", b"junk"])
def test_a_damaged_thumbnail_is_made_again(client: TestClient, library: Library, left: bytes) -> None:
    item = library.catalog.page(Filter(), 0, 1)[0]
    whole = client.get(f"/api/items/{item.id}/thumbnail").content
    (kept,) = (library.home / "thumbnails").rglob(f"{item.digest}-256.jpg")
    kept.write_bytes(left)
    assert client.get(f"/api/items/{item.id}/thumbnail").content == whole == kept.read_bytes()


def test_thumbnails_are_shown_where_none_can_be_kept(library: Library, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    item = library.catalog.page(Filter(), 0, 1)[0]
    content = Thumbnails(tmp_path / "file").get(item.path, item.digest, 256)
    assert Image.open(io.BytesIO(content)).format == "JPEG"


def test_search_by_an_uploaded_picture(client: TestClient) -> None:
    response = client.post("/api/search", files={"picture": encoded(drawing(4), quality=60)}, data={"k": 5})
    found = response.json()
    assert (response.status_code, found["items"][0]["name"], len(found["items"])) == (200, "4.jpg", 5)
    assert (found["searched"], found["n_bits"], found["learned"], len(found["bits"])) == (11, 256, False, 256)
    scores = [hit["score"] for hit in found["items"]]
    assert scores == sorted(scores)
    only = client.post("/api/search?folder=a", files={"picture": encoded(drawing(4))}, data={"k": 9}).json()
    assert {hit["folder"] for hit in only["items"]} == {"a"}


def test_more_like_a_picture_of_the_collection(client: TestClient) -> None:
    items = by_name(client)
    found = client.get(f"/api/items/{items['3.jpg']['id']}/similar?k=3").json()
    assert found["items"][0]["name"] == "small copy of 3.jpg"
    code = client.get(f"/api/items/{items['3.jpg']['id']}/code").json()
    assert (len(code["bits"]), set(code["bits"]) <= {"0", "1"}) == (256, True)
    other = client.get(f"/api/items/{found['items'][0]['id']}/code").json()
    assert sum(a != b for a, b in zip(code["bits"], other["bits"], strict=True)) == found["items"][0]["distance"]


def test_words_and_facets(client: TestClient, library: Library) -> None:
    commonest = client.get("/api/words").json()
    assert commonest
    assert commonest[0]["count"] >= commonest[-1]["count"] >= 1
    word = commonest[0]["word"]
    for length in range(1, 4):  # also where many words begin so of which there are no pictures
        assert word in [s["word"] for s in client.get("/api/words", params={"q": word[:length]}).json()]
    assert client.get("/api/items", params={"word": word}).json()["total"] == library.catalog.count(Filter(word=word))
    facets = client.get("/api/facets").json()
    assert facets["folders"] == [{"value": "a", "count": 4}, {"value": "b", "count": 4}]


def test_health_and_metrics(client: TestClient) -> None:
    health = client.get("/api/health").json()
    assert (health["status"], health["items"], health["failures"], health["notices"]) == ("ok", 11, 0, [])
    client.get("/api/items/1")
    text = client.get("/metrics").text
    assert "isch_items 11.0" in text
    assert 'route="/api/items/{number}",status="200"' in text


@pytest.mark.parametrize("path", ["/api/items/999", "/api/items/999/thumbnail", "/api/items/999/similar", "/nowhere"])
def test_what_is_not_there(client: TestClient, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 404
    assert "Traceback" not in response.text


def groups(client: TestClient, **parameters: Any) -> list[set[str]]:
    return [
        {item["name"] for item in group["items"]}
        for group in client.get("/api/duplicates", params={**ALTERED, **parameters}).json()["groups"]
    ]


ALTERED = {"closeness": "altered"}
THREES, FIVES = {"3.jpg", "small copy of 3.jpg"}, {"5.jpg", "grey copy of 5.png"}


def test_duplicates_with_rules_and_exports(client: TestClient, library: Library) -> None:
    found = client.get("/api/duplicates", params=ALTERED).json()
    assert (found["total"], found["closeness"]) == (2, "altered")
    assert groups(client, closeness="identical") == []
    assert groups(client, closeness="same") == [THREES]
    assert THREES in groups(client)
    assert FIVES in groups(client)
    three = next(g for g in found["groups"] if {i["name"] for i in g["items"]} == THREES)
    assert (three["items"][three["keep"]]["name"], three["reason"]) == ("3.jpg", "original")
    preferred = client.get("/api/duplicates", params={"rule": ["folder"], "folder": ["a"], **ALTERED}).json()
    assert all(g["items"][g["keep"]]["folder"] == "a" for g in preferred["groups"])
    rows = list(csv.DictReader(io.StringIO(client.get("/api/duplicates/export", params=ALTERED).text)))
    assert sorted({row["group"] for row in rows}) == ["1", "2"]
    assert sum(row["keep"] == "keep" for row in rows) == 2
    assert len(client.get("/api/duplicates/export?format=json&closeness=altered").json()) == 2
    assert client.get("/api/duplicates?closeness=loose").status_code == 422


@pytest.fixture
def own(tmp_path: Path) -> tuple[Library, Settings]:
    """A library that may be changed."""
    library = Library(make_pictures(tmp_path / "pictures"), tmp_path / "home")
    library.update()
    return library, Settings()


def opened(library: Library, settings: Settings) -> TestClient:
    return TestClient(create(library, settings), base_url="http://127.0.0.1:8765")


def test_pictures_that_come_and_go_while_serving(own: tuple[Library, Settings]) -> None:
    library, _ = own
    updater = Updater(library, seconds=0.02)
    updater.start()

    def until(count: int) -> None:
        end = time.monotonic() + 30
        while len(library) != count:
            assert time.monotonic() < end
            time.sleep(0.02)

    drawing(77).save(library.folder / "late.png")
    until(12)
    (library.folder / "late.png").write_bytes(b"half of a picture that is being copied")
    until(11)
    drawing(78).save(library.folder / "late.png")
    until(12)
    shutil.rmtree(library.folder / "a")
    until(8)
    updater.stop()


def test_many_clients_while_pictures_come_and_codes_are_learned(
    own: tuple[Library, Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a client asks while the index is changed and replaced, the answer is a success or "not there"."""
    monkeypatch.setattr(updating, "LEARN_ROWS", 30)
    monkeypatch.setattr(updating, "N_BITS", 16)
    library, settings = own
    wrong: list[str] = []
    done = threading.Event()
    with opened(library, settings) as client:

        def use(seed: int) -> None:
            paths = [f"/api/items/{1 + seed}/similar?k=5", "/api/items?limit=5", "/api/duplicates", "/api/health"]
            while not done.wait(0.02):
                for path in (*paths, f"/api/items/{30 + seed}/similar"):
                    answer = client.get(path)
                    if answer.status_code not in (200, 404):
                        wrong.append(f"{path}: {answer.text}")

        threads = [threading.Thread(target=use, args=(seed,)) for seed in range(3)]
        for thread in threads:
            thread.start()
        for i in range(100, 124):
            drawing(i).save(library.folder / f"{i}.png")
            if i % 4 == 3:
                library.update(wait=30)
        done.set()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert client.get("/api/health").json()["items"] == 35
    assert library.learned


def test_copies_go_to_the_trash_while_the_folder_is_looked_at(
    own: tuple[Library, Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    library, _ = own
    monkeypatch.setattr("send2trash.send2trash", os.remove)
    monkeypatch.setattr(duplicates, "UPDATE_SECONDS", 0.05)
    items = {item.name: item.id for item in library.catalog.page(Filter(), 0, 100)}
    with locked(library.home / "update.lock", 0, "tests"):
        (outcome,) = Duplicates(library).trash([([items["small copy of 3.jpg"]], [items["3.jpg"]])])
    assert outcome.moved


def test_decisions_are_remembered_over_restarts_and_a_new_index(own: tuple[Library, Settings], tmp_path: Path) -> None:
    library, settings = own
    token = {"x-page-token": settings.page_token}
    with opened(library, settings) as client:
        items = by_name(client)
        ids = [items[name]["id"] for name in sorted(THREES)]
        assert (
            client.post("/api/decisions", json={"verdict": "not duplicates", "items": ids}, headers=token).status_code
            == 204
        )
        five = [items[name]["id"] for name in sorted(FIVES)]
        grey = items["grey copy of 5.png"]["id"]
        body = {"verdict": "keep one", "items": five, "keep": grey}
        assert client.post("/api/decisions", json=body, headers=token).status_code == 204
        assert groups(client) == [FIVES]
    (library.folder / "grey copy of 5.png").rename(library.folder / "renamed.png")
    library.update()
    library.close()
    shutil.copy(library.home / "decisions.sqlite", tmp_path / "kept.sqlite")
    again = Library(library.folder, library.home)
    with opened(again, Settings()) as client:
        (group,) = client.get("/api/duplicates", params=ALTERED).json()["groups"]
        assert (group["items"][group["keep"]]["name"], group["reason"]) == ("renamed.png", "you")


def test_keeping_both_settles_a_group_until_forgotten(own: tuple[Library, Settings]) -> None:
    library, settings = own
    token = {"x-page-token": settings.page_token}
    with opened(library, settings) as client:
        ids = [by_name(client)[name]["id"] for name in FIVES]
        client.post("/api/decisions", json={"verdict": "keep both", "items": ids}, headers=token)
        assert groups(client) == [THREES]
        client.post("/api/decisions", json={"verdict": "forget", "items": ids}, headers=token)
        assert len(groups(client)) == 2


def test_copies_go_to_the_trash_after_confirmation(
    own: tuple[Library, Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    library, settings = own
    gone = library.folder.parent / "trash"
    gone.mkdir()
    monkeypatch.setattr("send2trash.send2trash", lambda path: shutil.move(path, gone))
    with opened(library, settings) as client:
        items = by_name(client)
        small, kept = items["small copy of 3.jpg"]["id"], items["3.jpg"]["id"]
        body: dict[str, Any] = {"removals": [{"give_up": [small], "keep": [kept]}], "confirmed": 1}
        assert client.post("/api/trash", json=body).status_code == 403
        token = {"x-page-token": settings.page_token}
        assert (
            "2 were confirmed"
            in client.post("/api/trash", json={**body, "confirmed": 2}, headers=token).json()["detail"]
        )
        done = client.post("/api/trash", json=body, headers=token).json()
        assert (done["moved"], [p.name for p in gone.iterdir()]) == (1, ["small copy of 3.jpg"])
        assert "small copy of 3.jpg" not in by_name(client)
        assert (library.home / "trash.jsonl").read_text().count("small copy of 3.jpg") >= 1
        assert groups(client) == [FIVES]


def test_what_went_to_the_trash_comes_back_step_by_step_also_after_a_restart(
    own: tuple[Library, Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    library, settings = own
    strange = os.fsdecode(b"copy \xff of 3.png")  # no UTF-8
    shutil.copy(library.folder / "small copy of 3.jpg", library.folder / strange)
    library.update()
    monkeypatch.setenv("XDG_DATA_HOME", str(library.folder.parent / "data"))
    gone = library.folder.parent / "data" / "Trash" / "files"
    gone.mkdir(parents=True)
    monkeypatch.setattr("send2trash.send2trash", lambda path: shutil.move(path, gone))
    token = {"x-page-token": settings.page_token}
    with opened(library, settings) as client:
        assert client.get("/api/trash").json() == {"steps": 0, "files": 0, "bytes": 0}
        assert r"copy \xff of 3.png" in client.get("/api/duplicates/export", params=ALTERED).text
        assert r"copy \\xff of 3.png" in client.get("/api/duplicates/export", params={**ALTERED, "format": "json"}).text
        items = by_name(client)
        for name in (r"copy \xff of 3.png", "small copy of 3.jpg"):
            removal = {"give_up": [items[name]["id"]], "keep": [items["3.jpg"]["id"]]}
            body = {"removals": [removal], "confirmed": 1, **ALTERED}
            done = client.post("/api/trash", json=body, headers=token)
            assert (done.status_code, done.json()["moved"]) == (200, 1)
            assert done.json()["outcomes"][0]["path"].endswith(name)
        assert done.json()["undoable"]["steps"] == 2
        assert client.post("/api/trash/undo").status_code == 403
        assert client.post("/api/trash/undo", headers=token).json()["undoable"]["steps"] == 1
        assert os.listdir(gone) == [strange]
    library.close()
    with opened(Library(library.folder, library.home), settings) as client:
        undone = client.post("/api/trash/undo", headers=token).json()
        assert undone["undoable"] == {"steps": 0, "files": 0, "bytes": 0}
        assert [one["moved"] for one in undone["outcomes"]] == [True]
        assert (library.folder / strange).exists()
        assert client.post("/api/trash/undo", headers=token).json()["outcomes"] == []
        assert {*THREES, r"copy \xff of 3.png"} in groups(client, **ALTERED)


def test_an_unrelated_picture_does_not_stand_for_another(
    own: tuple[Library, Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    library, settings = own
    monkeypatch.setattr("send2trash.send2trash", os.remove)
    with opened(library, settings) as client:
        items = by_name(client)
        removal = {"give_up": [items["0.jpg"]["id"]], "keep": [items["1.jpg"]["id"]]}
        body = {"removals": [removal], "confirmed": 1}
        done = client.post("/api/trash", json=body, headers={"x-page-token": settings.page_token}).json()
        assert done["moved"] == 0
        assert "is not a copy of it" in done["outcomes"][0]["reason"]
        assert (library.folder / "b" / "0.jpg").exists()

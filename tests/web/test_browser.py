"""The page in a real browser: by mouse, by keyboard, on a phone, in the dark; decisions outlive the server."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from isch.photos.library import Library

from .conftest import STRANGE, drawing, encoded, make_pictures

playwright = pytest.importorskip("playwright.sync_api", reason="browser tests need playwright")
BROWSER = os.environ.get("ISCH_BROWSER") or shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium on this machine")
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SECONDS = 60_000  # milliseconds: CI machines are slow


class Server:
    """``isch photos`` as a user runs it, in a process of its own."""

    def __init__(self, folder: Path, home: Path) -> None:
        command = [
            sys.executable,
            "-m",
            "isch",
            "photos",
            str(folder),
            "--index",
            str(home),
            "--no-browser",
            "--port",
            "0",
        ]
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **{name: str(home.parent / name) for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME")}},
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if found := re.search(r"http://127\.0\.0\.1:\d+/", line):
                self.address = found[0]
                return
        raise AssertionError("the server did not say where it is")

    def stop(self, how: signal.Signals = signal.SIGINT) -> int:
        self._process.send_signal(how)
        assert self._process.stdout is not None
        self._process.stdout.read()
        self._process.stdout.close()
        return self._process.wait(30)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pictures(tmp_path_factory.mktemp("browser") / "pictures")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    server = Server(folder, folder.parent / "home")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=BROWSER, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Any]:
    yield from opened(browser, server.address)


def opened(browser: Any, address: str, **options: Any) -> Iterator[Any]:
    """A page that fails the test on any error in its console."""
    context = browser.new_context(**options)
    page = context.new_page()
    page.set_default_timeout(SECONDS)
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
    page.goto(address)
    page.wait_for_selector(".tile")
    yield page
    context.close()
    assert problems == []


def until(page: Any, script: str, value: Any = None) -> None:
    """Wait until a function of the page is true; the page's own policy forbids Playwright's way of waiting for it."""
    end = time.monotonic() + SECONDS / 1000
    while not page.evaluate(script, value):
        assert time.monotonic() < end, script
        time.sleep(0.05)


def status(page: Any, text: str) -> None:
    until(page, "wanted => document.querySelector('#status').textContent.includes(wanted)", text)


def test_the_collection_is_a_grid(page: Any) -> None:
    status(page, "11 pictures")
    assert page.locator(".tile").count() == 11
    until(page, "() => [...document.images].filter(i => i.naturalWidth > 0).length >= 10")


def test_click_for_more_like_this_and_how_it_works(page: Any) -> None:
    page.get_by_title("a/3.jpg").click()
    page.wait_for_selector(".query")
    status(page, "of 11 searched in")
    first = page.locator(".tile").first
    assert "small copy of 3.jpg" in first.get_attribute("aria-label")
    assert "distance 0." in first.inner_text()
    page.click("#how")
    page.wait_for_selector(".bits svg")
    marked = page.locator(".bits figure").first.locator(".differ").count()
    assert f"here {marked} of 256" in page.locator("dialog p").first.inner_text()
    page.keyboard.press("Escape")
    page.go_back()
    status(page, "11 pictures")


def test_search_by_an_uploaded_picture(page: Any, tmp_path: Path) -> None:
    (tmp_path / "query.jpg").write_bytes(encoded(drawing(6), quality=50))
    page.set_input_files("#file", tmp_path / "query.jpg")
    page.wait_for_selector(".query")
    assert "6.jpg" in page.locator(".tile").first.get_attribute("aria-label")


def test_dropping_and_pasting_a_picture(page: Any) -> None:
    script = """([bytes, kind]) => {
        const file = new File([new Uint8Array(bytes)], 'dropped.jpg', {type: 'image/jpeg'});
        const data = new DataTransfer(); data.items.add(file);
        const how = {bubbles: true, cancelable: true};
        dispatchEvent(kind === 'drop' ? new DragEvent('drop', {dataTransfer: data, ...how})
                                      : new ClipboardEvent('paste', {clipboardData: data, ...how}));
    }"""
    for kind, seed in (("drop", 2), ("paste", 7)):
        page.evaluate(script, [list(encoded(drawing(seed), quality=60)), kind])
        until(
            page,
            "name => document.querySelector('.query + .grid .tile')?.getAttribute('aria-label').startsWith(name)",
            f"{seed}.jpg",
        )


def test_a_file_that_is_no_picture_is_one_sentence(browser: Any, server: Server, tmp_path: Path) -> None:
    (tmp_path / "bad.jpg").write_bytes(b"not a picture")
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.address)
    page.wait_for_selector(".tile")
    page.set_input_files("#file", tmp_path / "bad.jpg")
    page.wait_for_selector("#status.bad")
    assert "picture" in page.inner_text("#status")
    context.close()


def test_search_by_word_with_suggestions(page: Any) -> None:
    page.click("#word")
    page.wait_for_selector("#suggestions li")
    word = page.locator("#suggestions li").first.evaluate("row => row.firstChild.textContent")
    page.fill("#word", word)
    page.keyboard.press("Enter")
    status(page, f"that may show “{word}”")
    assert page.locator(".tile").count() >= 1
    page.fill("#word", "qwertyuiop")
    page.keyboard.press("Enter")
    page.wait_for_selector(".empty")


def test_filters(page: Any) -> None:
    page.select_option("#folder", "a")
    status(page, "4 pictures")
    page.click("#clear")
    status(page, "11 pictures")


def test_strange_names_are_text(page: Any) -> None:
    page.get_by_title(STRANGE).click()
    page.wait_for_selector(".query")
    assert page.inner_text(".query h1") == STRANGE


def test_by_keyboard_alone(page: Any) -> None:
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "word"
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    page.locator(".tile").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.index") == "2"
    page.keyboard.press("End")
    until(page, "() => document.activeElement.dataset.index === '10'")
    name = page.evaluate("document.activeElement.title")
    page.keyboard.press("Enter")
    page.wait_for_selector(".query")
    assert page.inner_text(".query h1") in name
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Escape")
    status(page, "11 pictures")


def test_every_control_has_a_name(page: Any) -> None:
    page.goto(page.url.split("#")[0] + "#/duplicates")
    page.wait_for_selector(".group")
    script = """() => [...document.querySelectorAll('button, a, input:not([hidden]), select')]
        .filter(e => e.offsetParent && !(e.getAttribute('aria-label') || e.innerText?.trim() || e.labels?.length))
        .map(e => e.outerHTML)"""
    unnamed = page.evaluate(script)
    assert unnamed == []
    assert page.locator("img:not([alt])").count() == 0


def test_on_a_phone_in_the_dark(browser: Any, server: Server) -> None:
    options = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "has_touch": True, "is_mobile": True}
    for page in opened(browser, server.address, **options):
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        red, green, blue = re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))[:3]
        assert int(red) + int(green) + int(blue) < 150
        page.locator(".tile").first.tap()
        page.wait_for_selector(".query")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.goto(f"{server.address}#/duplicates")
        page.wait_for_selector(".group")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_missing_pictures_are_kept_and_the_page_says_so(browser: Any, tmp_path: Path) -> None:
    """The folder is empty, as where a drive is not mounted; nothing of the pictures can be shown but what is kept."""
    folder, home = make_pictures(tmp_path / "pictures"), tmp_path / "home"
    library = Library(folder, home)
    library.update()
    library.close()
    folder.rename(tmp_path / "elsewhere")
    folder.mkdir()
    server = Server(folder, home)
    page = browser.new_page()
    page.goto(server.address)
    status(page, "11 pictures")
    until(page, "() => document.querySelector('#notices').textContent.includes('11 of 11 pictures are not in')")
    page.close()
    server.stop()


def test_duplicates_decisions_and_a_restart(browser: Any, tmp_path: Path) -> None:
    folder, home = make_pictures(tmp_path / "pictures"), tmp_path / "home"
    first = Server(folder, home)
    for page in visited(browser, first):
        page.wait_for_selector(".group")
        assert page.locator(".group").count() == 1
        assert page.is_checked("input[value=same]")
        page.check("input[value=identical]")
        status(page, "No duplicates at this setting")
        page.check("input[value=altered]")
        until(page, "() => document.querySelectorAll('.group').length === 2")
        group = page.locator(".group", has=page.locator(".name", has_text="grey copy of 5.png"))
        group.get_by_role("radio").nth(0 if "grey" in group.locator(".name").first.inner_text() else 1).check()
        until(page, "[...document.querySelectorAll('.group h2')].some(h => h.textContent.includes('you chose'))")
        other = page.locator(".group", has=page.locator(".name", has_text="small copy"))
        other.get_by_role("button", name="Not duplicates").click()
        until(page, "() => document.querySelectorAll('.group').length === 1")
        assert page.is_disabled("#trash")  # nothing is chosen yet
        page.locator(".group input[type=checkbox]").check()
        page.click("#trash")
        page.wait_for_selector("#really")
        assert "1 file" in page.inner_text("#dialog-title")
        assert page.locator("#dialog .seen img").count() == 1
        page.keyboard.press("Escape")
    first.stop(signal.SIGKILL)
    second = Server(folder, home)
    for page in visited(browser, second):
        status(page, "No duplicates at this setting")
        page.check("input[value=altered]")
        page.wait_for_selector(".group")
        assert page.locator(".group").count() == 1
        assert "you chose" in page.inner_text(".group h2")
    assert second.stop() == 0


def test_chosen_groups_go_to_the_trash_and_come_back(browser: Any, tmp_path: Path) -> None:
    folder = make_pictures(tmp_path / "pictures")
    for i in range(25):
        drawing(100 + i).save(folder / f"one {i}.png")
        drawing(100 + i).save(folder / f"two {i}.bmp")
    server = Server(folder, tmp_path / "home")
    before = {path.name for path in folder.rglob("*.*")}
    for page in visited(browser, server):
        page.check("input[value=same]")
        until(page, "() => document.querySelectorAll('.group').length >= 25")
        first = page.locator(".group", has=page.locator(".name", has_text="one 3.png"))
        first.locator("input[type=checkbox]").check()
        assert "Move 1 spare copy" in page.inner_text("#trash")
        assert page.evaluate("document.querySelector('#every').indeterminate")
        page.check("#every")
        page.click("#trash")
        page.wait_for_selector("#really")
        assert page.locator("#dialog .seen img").count() == 20
        assert "more file" in page.inner_text("#dialog")
        page.click("#really")
        page.wait_for_selector("#undo:visible", state="attached")
        until(page, "() => document.querySelector('#dialog-title').textContent === 'Moved to the trash'")
        assert len({path.name for path in folder.rglob("*.*")}) <= len(before) - 25
        page.keyboard.press("Escape")
    assert server.stop() == 0
    again = Server(folder, tmp_path / "home")
    for page in visited(browser, again):
        page.click("#undo")
        until(page, "() => document.querySelector('#dialog-title')?.textContent === 'Back where they were'")
        assert {path.name for path in folder.rglob("*.*")} == before
        until(page, "() => document.querySelectorAll('.group').length >= 25")
        assert page.is_hidden("#undo")
    assert again.stop() == 0


def visited(browser: Any, server: Server) -> Iterator[Any]:
    """The page of duplicates."""
    for page in opened(browser, server.address):
        page.goto(f"{server.address}#/duplicates")
        yield page

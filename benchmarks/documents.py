"""Different pictures that look alike: documents, screens and plain scenes, drawn kind by kind.

Pictures of one kind share what such pictures share in life: paper, template, header, status bar, frame. Their content
differs, so no two of them are copies. ``BUILDING`` is what the tests of evidence were made with (isch.photos.evidence);
those of ``strangers.py`` were drawn later, to judge with.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

Draw = Callable[[np.random.Generator], Image.Image]
A4, PHONE, SCREEN = (620, 877), (540, 1170), (1280, 720)
_SYLLABLES = (
    "an",
    "be",
    "co",
    "da",
    "el",
    "fi",
    "gra",
    "hu",
    "in",
    "jo",
    "ka",
    "lu",
    "mo",
    "ne",
    "or",
    "pi",
    "qua",
    "ri",
    "so",
    "ta",
    "ul",
    "ve",
    "xi",
    "yo",
    "zu",
    "ster",
    "ment",
    "ing",
    "tion",
)


def words(rng: np.random.Generator, n: int) -> str:
    return " ".join("".join(rng.choice(_SYLLABLES, rng.integers(1, 4))) for _ in range(n))


def font(size: float) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(round(size))


def canvas(size: tuple[int, int], colour: object = "white") -> tuple[Image.Image, ImageDraw.ImageDraw]:
    image = Image.new("RGB", size, colour)  # type: ignore[arg-type]
    return image, ImageDraw.Draw(image)


def paragraph(draw: ImageDraw.ImageDraw, rng: np.random.Generator, box: tuple[int, int, int, int], size: float) -> int:
    """Left-aligned lines of words in a box; returns where they end."""
    left, y, right, bottom = box
    most = int((right - left) / (3.2 * size))
    while y < bottom:
        draw.text((left, y), words(rng, int(rng.integers(max(most // 2, 1), most + 1))), "black", font(size))
        y += round(1.5 * size)
    return y


def letter(rng: np.random.Generator) -> Image.Image:
    image, draw = canvas(A4)
    draw.text((70, 60), words(rng, 4), "black", font(14))
    y = 190
    for _ in range(rng.integers(2, 5)):
        y = paragraph(draw, rng, (70, y, 550, y + int(rng.integers(60, 160))), 12) + 14
    draw.text((70, y + 40), words(rng, 2), "black", font(12))
    return image


def note(rng: np.random.Generator) -> Image.Image:
    image, draw = canvas(A4)
    paragraph(draw, rng, (60, 60, 500, 60 + int(rng.integers(30, 120))), 16)
    return image


def article(rng: np.random.Generator) -> Image.Image:
    image, draw = canvas(A4)
    for left in (45, 320):
        paragraph(draw, rng, (left, 60, left + 255, 820), 9)
    return image


def signature(rng: np.random.Generator) -> Image.Image:
    image, draw = canvas((600, 300))
    steps = rng.normal(0, 1, (24, 2)).cumsum(axis=0)
    steps -= steps.min(axis=0)
    t = np.linspace(0, 23, 300)
    x = 60 + t * 20 + 12 * np.interp(t, range(24), steps[:, 0])
    y = 90 + 100 * np.interp(t, range(24), steps[:, 1]) / max(np.ptp(steps[:, 1]), 1) + 18 * np.sin(2.5 * t)
    draw.line(list(zip(x.tolist(), y.tolist(), strict=True)), (20, 20, 80), 3)
    return image


def slide(rng: np.random.Generator) -> Image.Image:
    image, draw = canvas((960, 540))
    draw.rectangle((0, 0, 960, 70), (30, 60, 120))
    draw.text((40, 18), words(rng, 4), "white", font(30))
    for line in range(rng.integers(2, 6)):
        draw.text((80, 120 + 70 * line), "• " + words(rng, int(rng.integers(3, 8))), "black", font(24))
    draw.text((880, 505), str(rng.integers(1, 60)), "grey", font(14))
    return image


def receipt(rng: np.random.Generator) -> Image.Image:
    n = int(rng.integers(10, 20))
    image, draw = canvas((360, 900))
    draw.text((180, 40), "CORNER SHOP", "black", font(26), anchor="mm")
    for row in range(n):
        draw.text((20, 90 + 36 * row), words(rng, 2), "black", font(17))
        draw.text((340, 90 + 36 * row), f"{rng.uniform(0, 90):.2f}", "black", font(17), anchor="ra")
    draw.text((340, 110 + 36 * n), f"TOTAL {rng.uniform(20, 300):.2f}", "black", font(22), anchor="ra")
    return image


def chat(rng: np.random.Generator) -> Image.Image:
    image, draw = canvas(PHONE, (236, 229, 221))
    draw.rectangle((0, 0, 540, 110), (7, 94, 84))
    draw.text((90, 60), words(rng, 1), "white", font(28))
    draw.text((20, 8), f"{rng.integers(24)}:{rng.integers(60):02}", "white", font(18))
    y = 140
    while y < 1040:
        lines, width = int(rng.integers(1, 4)), int(rng.integers(160, 400))
        left = 20 if rng.random() < 0.5 else 520 - width
        draw.rounded_rectangle(
            (left, y, left + width, y + 30 * lines + 20), 14, "white" if left == 20 else (220, 248, 198)
        )
        for line in range(lines):
            draw.text((left + 14, y + 8 + 30 * line), words(rng, max(1, width // 75)), "black", font(20))
        y += 30 * lines + 40
    draw.rounded_rectangle((14, 1090, 526, 1150), 30, "white")
    return image


def spreadsheet(rng: np.random.Generator) -> Image.Image:
    image, draw = canvas(SCREEN)
    draw.rectangle((0, 0, 1280, 90), (33, 115, 70))
    for x in range(60, 1280, 110):
        draw.line((x, 90, x, 720), (200, 200, 200))
    for y in range(90, 720, 24):
        draw.line((0, y, 1280, y), (200, 200, 200))
        draw.text((20, y + 4), str((y - 66) // 24), "grey", font(14))
        for x in range(60, 60 + 110 * int(rng.integers(5, 9)), 110):
            draw.text((x + 104, y + 4), f"{rng.integers(0, 99999):,}", "black", font(14), anchor="ra")
    return image


def code(rng: np.random.Generator) -> Image.Image:
    image, draw = canvas(SCREEN, (30, 30, 30))
    draw.rectangle((0, 0, 200, 720), (37, 37, 38))
    colours = [(86, 156, 214), (206, 145, 120), (212, 212, 212), (106, 153, 85), (220, 220, 170)]
    indent = 0
    for y in range(20, 700, 22):
        indent = int(np.clip(indent + rng.integers(-1, 2), 0, 5))
        x = 260 + 28 * indent
        for _ in range(rng.integers(0, 7)):
            text = words(rng, 1) + " "
            draw.text((x, y), text, colours[rng.integers(5)], font(15))
            x += int(draw.textlength(text, font(15)))
    for y in range(20, 600, 24):
        draw.text((20, y), words(rng, 1) + ".py", (200, 200, 200), font(13))
    return image


def home_screen(rng: np.random.Generator) -> Image.Image:
    image, draw = canvas(PHONE, tuple(rng.integers(20, 60, 3).tolist()))
    draw.text((24, 10), f"{rng.integers(24)}:{rng.integers(60):02}", "white", font(20))
    draw.text((516, 10), "87 %", "white", font(20), anchor="ra")
    for place in range(int(rng.integers(8, 21))):
        x, y = 40 + 122 * (place % 4), 90 + 150 * (place // 4)
        draw.rounded_rectangle((x, y, x + 88, y + 88), 20, tuple(rng.integers(40, 255, 3).tolist()))
        draw.ellipse((x + 22, y + 22, x + 66, y + 66), tuple(rng.integers(0, 255, 3).tolist()))
        draw.text((x + 44, y + 102), words(rng, 1)[:8], "white", font(15), anchor="mm")
    return image


def scan(rng: np.random.Generator) -> Image.Image:
    page = letter(rng).rotate(rng.uniform(-1.5, 1.5), Image.Resampling.BICUBIC, fillcolor="white")
    shade = np.linspace(rng.uniform(215, 235), rng.uniform(235, 250), page.width)[None, :, None] / 255
    noisy = np.asarray(page) * shade + rng.normal(0, 6, (page.height, page.width, 1))
    return Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))


def bar_chart(rng: np.random.Generator) -> Image.Image:
    image, draw = canvas((800, 600))
    draw.text((400, 30), "Sales by month", "black", font(26), anchor="mm")
    for y in range(100, 540, 55):
        draw.line((80, y, 760, y), (220, 220, 220))
    draw.line((80, 60, 80, 540, 760, 540), "black", 2)
    for month, height in enumerate(rng.uniform(40, 440, 12)):
        draw.rectangle((95 + 55 * month, 540 - height, 130 + 55 * month, 540), (70, 120, 190))
    return image


def line_chart(rng: np.random.Generator) -> Image.Image:
    image, draw = canvas((800, 600))
    draw.rectangle((80, 60, 760, 540), outline="black")
    for y in range(60, 540, 60):
        draw.line((80, y, 760, y), (220, 220, 220))
        draw.text((70, y), str(y), "black", font(14), anchor="rm")
    for colour in ("red", "blue", "green"):
        walk = rng.normal(0, 25, 60).cumsum()
        y = 300 + np.clip(walk - walk.mean(), -230, 230)
        draw.line(list(zip(np.linspace(80, 760, 60).tolist(), y.tolist(), strict=True)), colour, 3)
    return image


def comic(rng: np.random.Generator) -> Image.Image:
    image, draw = canvas(A4)
    for row in range(3):
        for column in range(2):
            x, y = 20 + 295 * column, 20 + 283 * row
            draw.rectangle((x, y, x + 280, y + 268), tuple(rng.integers(150, 255, 3).tolist()), "black", 4)
            for _ in range(rng.integers(1, 4)):
                cx, cy, r = x + rng.integers(50, 230), y + rng.integers(120, 220), int(rng.integers(15, 45))
                fill = tuple(rng.integers(0, 255, 3).tolist())
                draw.ellipse((cx - r, cy - r, cx + r, cy + r), fill, "black", 3)
            draw.ellipse((x + 20, y + 12, x + 20 + rng.integers(120, 240), y + 80), "white", "black", 3)
            draw.text((x + 50, y + 36), words(rng, 2), "black", font(14))
    return image


def icon(rng: np.random.Generator) -> Image.Image:
    image, draw = canvas((256, 256))
    for _ in range(rng.integers(1, 4)):
        (x0, x1), (y0, y1) = np.sort(rng.integers(30, 226, (2, 2))).tolist()
        shape = (draw.rectangle, draw.ellipse)[rng.integers(2)]
        shape((x0, y0, x1 + 8, y1 + 8), tuple(rng.integers(0, 220, 3).tolist()))
    return image


def night(rng: np.random.Generator) -> Image.Image:
    image, draw = canvas((800, 600), (4, 5, 14))
    x, y, r = int(rng.integers(60, 740)), int(rng.integers(60, 540)), int(rng.integers(12, 40))
    draw.ellipse((x - r, y - r, x + r, y + r), (240, 240, 220))
    for sx, sy in rng.integers(0, 600, (30, 2)).tolist():
        draw.point((sx, sy), "white")
    noise = rng.normal(0, 2, (600, 800, 3))
    return Image.fromarray(np.clip(np.asarray(image) + noise, 0, 255).astype(np.uint8))


def snow(rng: np.random.Generator) -> Image.Image:
    image, draw = canvas((800, 600), (242, 244, 250))
    draw.rectangle((0, 0, 800, int(rng.integers(150, 300))), (228, 233, 242))
    for _ in range(rng.integers(1, 4)):
        x, y, h = int(rng.integers(50, 750)), int(rng.integers(260, 500)), int(rng.integers(30, 110))
        draw.polygon([(x, y - h), (x - h // 3, y), (x + h // 3, y)], (70, 85, 80))
    noise = rng.normal(0, 2, (600, 800, 1))
    return Image.fromarray(
        np.clip(np.asarray(image.filter(ImageFilter.GaussianBlur(1))) + noise, 0, 255).astype(np.uint8)
    )


def fog(rng: np.random.Generator) -> Image.Image:
    down, across = np.mgrid[0:1:600j, 0:1:800j]
    values = 190 + 30 * (down * rng.normal() + across * rng.normal() * 0.5)
    for _ in range(4):
        x, y, s = rng.random(), rng.random(), rng.uniform(0.05, 0.3)
        values += rng.uniform(-25, 15) * np.exp(-((across - x) ** 2 + (down - y) ** 2) / (2 * s**2))
    return Image.fromarray(np.clip(values[..., None] + rng.normal(0, 2, (600, 800, 3)), 0, 255).astype(np.uint8))


def product(rng: np.random.Generator) -> Image.Image:
    image, draw = canvas((700, 700))
    w, h = rng.integers(120, 250, 2).tolist()
    colour = rng.integers(20, 220, 3)
    draw.rounded_rectangle((350 - w, 380 - h, 350 + w, 380 + h), 40, tuple(colour.tolist()))
    draw.rounded_rectangle((350 - w // 2, 380 - h // 2, 350 + w // 2, 380), 10, tuple((255 - colour).tolist()))
    draw.text((350, 380 + h // 2), words(rng, 1), "white", font(40), anchor="mm")
    return image.filter(ImageFilter.GaussianBlur(1))


def qr_code(rng: np.random.Generator) -> Image.Image:
    cells = rng.random((29, 29)) < 0.5
    finder = np.pad(np.pad(np.ones((3, 3), bool), 1), 1, constant_values=True)
    for row, column in ((0, 0), (0, 22), (22, 0)):
        cells[max(row - 1, 0) : row + 8, max(column - 1, 0) : column + 8] = False
        cells[row : row + 7, column : column + 7] = finder
    grey = np.where(np.pad(cells, 4), 0, 255).astype(np.uint8)
    return Image.fromarray(np.kron(grey, np.ones((12, 12), np.uint8))).convert("RGB")


def barcode(rng: np.random.Generator) -> Image.Image:
    image, draw = canvas((500, 300))
    x = 40
    while x < 450:
        width = int(rng.integers(1, 5)) * 2
        draw.rectangle((x, 40, x + width, 220), "black")
        x += width + int(rng.integers(1, 5)) * 2
    draw.text((250, 255), str(rng.integers(10**12)), "black", font(28), anchor="mm")
    return image


def sheet_music(rng: np.random.Generator) -> Image.Image:
    image, draw = canvas(A4)
    for stave in range(9):
        top = 80 + 88 * stave
        for line in range(5):
            draw.line((50, top + 8 * line, 570, top + 8 * line), "black")
        for x in range(90, 560, int(rng.integers(16, 30))):
            y = top + 4 * int(rng.integers(-1, 10))
            draw.ellipse((x - 5, y - 4, x + 5, y + 4), "black")
            draw.line((x + 5, y, x + 5, y - 28), "black", 2)
    return image


def street_map(rng: np.random.Generator) -> Image.Image:
    image, draw = canvas((800, 800), (242, 239, 233))
    for _ in range(8):
        x, y = rng.integers(0, 800, 2).tolist()
        w, h = rng.integers(40, 200, 2).tolist()
        draw.rectangle((x, y, x + w, y + h), ((200, 230, 190), (170, 210, 225))[rng.integers(2)])
    for _ in range(40):
        ends = rng.integers(-50, 850, 4).tolist()
        draw.line(ends, (160, 160, 160), 10)
        draw.line(ends, ("white", (252, 214, 120))[rng.random() < 0.2], 7)
    for _ in range(15):
        draw.text(tuple(rng.integers(20, 740, 2).tolist()), words(rng, 1), (60, 60, 60), font(14))
    return image


_FIELDS = words(np.random.default_rng(5), 24).split()


def form(rng: np.random.Generator) -> Image.Image:
    image, draw = canvas(A4)
    draw.text((310, 50), "Application for a permit", "black", font(24), anchor="mm")
    for row, name in enumerate(_FIELDS[:18]):
        y = 110 + 40 * row
        draw.text((50, y), name, "black", font(12))
        draw.rectangle((200, y - 8, 570, y + 22), outline="black")
        draw.text((210, y - 4), words(rng, int(rng.integers(1, 4))), (20, 20, 120), font(15))
    return image


def calendar(rng: np.random.Generator) -> Image.Image:
    image, draw = canvas((800, 620))
    draw.text((400, 40), words(rng, 1).title(), "black", font(34), anchor="mm")
    start, days = int(rng.integers(7)), int(rng.integers(28, 32))
    for place in range(42):
        x, y = 50 + 100 * (place % 7), 90 + 85 * (place // 7)
        draw.rectangle((x, y, x + 100, y + 85), outline="grey")
        if start <= place < start + days:
            draw.text((x + 10, y + 8), str(place - start + 1), "black", font(20))
            if rng.random() < 0.15:
                draw.text((x + 10, y + 45), words(rng, 1), "red", font(14))
    return image


def boarding_pass(rng: np.random.Generator) -> Image.Image:
    image, draw = canvas((900, 380))
    draw.rectangle((0, 0, 900, 70), (0, 80, 160))
    draw.text((30, 18), "BOARDING PASS", "white", font(30))
    for place, name in enumerate(("Name", "From", "To", "Flight", "Seat", "Gate", "Time", "Date")):
        x, y = 40 + 160 * (place % 4), 100 + 120 * (place // 4)
        draw.text((x, y), name, "grey", font(16))
        draw.text((x, y + 24), words(rng, 1)[:9].upper(), "black", font(24))
    image.paste(qr_code(rng).resize((180, 180)), (690, 130))
    return image


def scene(rng: np.random.Generator, width: int, height: int) -> Image.Image:
    """A random picture with the spectrum of natural scenes."""
    down, across = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)
    falloff = 1 / np.maximum(np.hypot(down, across), 1 / width)
    waves = [rng.normal(size=falloff.shape) + 1j * rng.normal(size=falloff.shape) for _ in range(3)]
    common, *tints = (np.fft.irfft2(wave * falloff, (height, width)) for wave in (waves[0], *waves))
    values = np.stack([common + 0.2 * tint for tint in tints], axis=2)
    return Image.fromarray(np.clip(120 + 50 * values / values.std(), 0, 255).astype(np.uint8))


def meme(rng: np.random.Generator) -> Image.Image:
    image, draw = canvas((600, 700), "black")
    image.paste(scene(rng, 520, 420), (40, 40))
    draw.rectangle((36, 36, 564, 464), outline="white", width=2)
    draw.text((300, 540), words(rng, 2).upper(), "white", font(48), anchor="mm")
    draw.text((300, 620), words(rng, 5), "white", font(24), anchor="mm")
    return image


BUILDING: Mapping[str, Draw] = {
    draw.__name__.replace("_", " "): draw
    for draw in (
        *(letter, note, article, signature, slide, receipt, chat, spreadsheet, code, home_screen, scan, bar_chart),
        *(
            line_chart,
            comic,
            icon,
            night,
            snow,
            fog,
            product,
            qr_code,
            barcode,
            sheet_music,
            street_map,
            form,
            calendar,
        ),
        *(boarding_pass, meme),
    )
}


def drawn(kinds: Mapping[str, Draw], count: int, seed: int = 0) -> Iterator[tuple[str, Image.Image]]:
    """(kind, picture) of so many different pictures of each kind."""
    for number, (name, draw) in enumerate(kinds.items()):
        for at in range(count):
            yield name, draw(np.random.default_rng([seed, number, at]))

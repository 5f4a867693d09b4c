"""Scenes drawn from random numbers: the same seed gives the same picture.

A scene is a function of a ``Pen``. It draws at twice the size, so that shrinking the result smooths its edges.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.errors import require

WIDTH, HEIGHT = 960, 720  # of the drawing; the picture has half of both
Colour = tuple[int, ...]
Point = tuple[float, float]

WHITE = (250, 250, 246)
DARK = (28, 30, 38)
SKIES = [  # the colour above, the colour at the horizon
    ((52, 110, 190), (214, 232, 244)),
    ((28, 42, 92), (246, 170, 116)),
    ((92, 60, 120), (252, 196, 150)),
    ((110, 168, 214), (246, 240, 220)),
    ((40, 84, 120), (240, 214, 160)),
]
BRIGHT = [(214, 64, 54), (240, 170, 40), (54, 116, 190), (70, 150, 92), (150, 84, 160), (236, 120, 60), (46, 150, 160)]


class Pen:
    """Random numbers, and what all scenes draw with."""

    def __init__(self, seed: int) -> None:
        self._pil, self._drawing = require("PIL.Image", "images"), require("PIL.ImageDraw", "images")
        self._filter = require("PIL.ImageFilter", "images")
        self.rng = np.random.default_rng(seed)
        self.image: Any = self._pil.new("RGB", (WIDTH, HEIGHT), WHITE)
        self.draw = self._drawing.Draw(self.image, "RGBA")

    def picture(self) -> Any:
        """The finished picture, with a little grain as photographs have it."""
        small = np.asarray(self.image.reduce(2), np.float32)
        grain = self.rng.normal(0, 3, small.shape[:2])[..., None]
        return self._pil.fromarray(np.clip(small + grain, 0, 255).astype(np.uint8))

    def uniform(self, low: float, high: float) -> float:
        """A random number."""
        return float(self.rng.uniform(low, high))

    def one_of(self, choices: list[Any]) -> Any:
        """One of some things."""
        return choices[int(self.rng.integers(len(choices)))]

    def shuffled(self, choices: list[Any]) -> list[Any]:
        """The same things in random order."""
        return [choices[i] for i in self.rng.permutation(len(choices))]

    def paint(self, values: NDArray[Any]) -> None:
        """Fill the whole drawing with an array (HEIGHT, WIDTH, 3)."""
        self.image.paste(self._pil.fromarray(np.clip(values, 0, 255).astype(np.uint8)))

    def gradient(self, above: Colour, below: Colour) -> None:
        """Fill the drawing with a colour that changes from the top to the bottom."""
        share = np.linspace(0, 1, HEIGHT)[:, None, None]
        rows = np.asarray(above) * (1 - share) + np.asarray(below) * share
        strip = self._pil.fromarray(np.clip(rows, 0, 255).astype(np.uint8))
        self.image.paste(strip.resize((WIDTH, HEIGHT)))

    def disc(self, centre: Point, radius: float, colour: Colour) -> None:
        """A filled circle."""
        x, y = centre
        self.draw.ellipse([x - radius, y - radius, x + radius, y + radius], fill=colour)

    def glow(self, centre: Point, radius: float, colour: Colour) -> None:
        """A circle with light around it."""
        for step in range(14, 0, -1):
            self.disc(centre, radius * (1 + step * step / 40), (*colour, 9))
        self.disc(centre, radius, colour)

    def blur(self, radius: float) -> None:
        """Take all that was drawn so far out of focus."""
        self.image.paste(self.image.filter(self._filter.GaussianBlur(radius)))

    def petals(self, centre: Point, radius: float, count: int, width: float, colour: Colour, turn: float) -> None:
        """Ellipses around a point."""
        along, across = np.cos(np.linspace(0, 2 * np.pi, 24)), np.sin(np.linspace(0, 2 * np.pi, 24))
        for k in range(count):
            angle = turn + 2 * np.pi * k / count
            x, y = radius * (0.55 + 0.45 * along), radius * width * across
            points = zip(x * np.cos(angle) - y * np.sin(angle), x * np.sin(angle) + y * np.cos(angle), strict=True)
            self.draw.polygon(
                [(centre[0] + a, centre[1] + b) for a, b in points], fill=shade(colour, 1 - 0.12 * (k % 2))
            )

    def clouds(self, count: int, lowest: float, colour: Colour) -> None:
        """Heaps of circles with a flat bottom, drawn on the sky that is there."""
        sky, light = self.image.copy(), mix(colour, WHITE, 0.6)
        for y in np.sort(self.rng.uniform(60, lowest, count)):
            x, size = self.uniform(0, WIDTH), self.uniform(24, 46)
            for k in range(9):
                spot = (x + (k - 4) * 0.6 * size, y + self.uniform(-0.35, 0.1) * size)
                self.disc(spot, size * (1.1 - 0.16 * abs(k - 4)), light)
            below = (int(x - 5 * size), int(y + 0.4 * size), int(x + 5 * size), int(y + 2 * size))
            self.image.paste(sky.crop(below), below[:2])

    def ridge(self, level: float, height: float, rough: float = 0.5) -> NDArray[np.float64]:
        """The outline of hills from left to right: noise whose finer parts are smaller."""
        places, out = np.linspace(0, 1, WIDTH // 4 + 1), np.full(WIDTH // 4 + 1, float(level))
        for octave in range(7):
            knots = self.rng.uniform(-1, 1, 2 ** (octave + 1) + 1)
            out += height * rough**octave * np.interp(places, np.linspace(0, 1, len(knots)), knots)
        return out

    def ground(self, outline: NDArray[np.float64], colour: Colour) -> None:
        """Fill everything below an outline."""
        points = [(4.0 * i, float(y)) for i, y in enumerate(outline)]
        self.draw.polygon([(0, HEIGHT), *points, (WIDTH, HEIGHT)], fill=colour)


def shade(colour: Colour, factor: float) -> Colour:
    """A darker or lighter colour."""
    return tuple(int(min(255, max(0, part * factor))) for part in colour[:3])


def mix(first: Colour, second: Colour, share: float) -> Colour:
    """A colour between two."""
    return tuple(int(a + (b - a) * share) for a, b in zip(first, second, strict=True))


def mountains(pen: Pen) -> None:
    """Ridges one behind the other in haze, and a lake that mirrors them."""
    above, horizon = pen.one_of(SKIES)
    pen.gradient(above, horizon)
    pen.glow((pen.uniform(150, 800), pen.uniform(100, 230)), pen.uniform(26, 44), mix(horizon, WHITE, 0.7))
    near, shore = pen.one_of([(30, 52, 48), (48, 40, 66), (36, 46, 70), (60, 48, 40)]), 540
    for layer in range(5):
        share = (layer + 1) / 5
        outline = pen.ridge(250 + 68 * layer, 130 - 14 * layer, 0.5)
        if layer < 2:
            pen.ground(outline, mix(horizon, (236, 240, 250), 0.8))
            snow = outline + 26 + np.abs(pen.rng.normal(0, 16, len(outline))) + 0.2 * (outline - outline.min())
            pen.ground(snow, mix(horizon, near, 0.35 + 0.2 * layer))
        else:
            pen.ground(outline, mix(horizon, near, share))
    view = np.asarray(pen.image, np.float32)
    rows = shore - 1 - ((np.arange(HEIGHT - shore) * 1.6).astype(int))
    ripple = (5 * np.sin(np.arange(HEIGHT - shore) ** 1.3 / 3)).astype(int)
    lake = np.stack([np.roll(view[row], shift, axis=0) for row, shift in zip(rows, ripple, strict=True)])
    pen.paint(np.concatenate([view[:shore], 0.72 * lake + 0.28 * np.asarray(above)]))


def sailing(pen: Pen) -> None:
    """Boats on the sea in front of the sun."""
    above, horizon = pen.one_of(SKIES)
    level = int(pen.uniform(330, 430))
    pen.gradient(above, horizon)
    pen.clouds(int(pen.uniform(0, 4)), level - 120, horizon)
    sun = pen.uniform(200, 760)
    pen.glow((sun, level - pen.uniform(20, 160)), 40, (255, 236, 190))
    sea = mix(above, (16, 60, 84), 0.55)
    pen.ground(np.full(WIDTH // 4 + 1, float(level)), sea)
    for _ in range(420):
        y = level + (HEIGHT - level) * pen.uniform(0, 1) ** 1.5
        near = (y - level) / (HEIGHT - level)
        x, length = pen.uniform(-40, WIDTH), (10 + 120 * near) * pen.uniform(0.4, 1)
        lit = abs(x + length / 2 - sun) < 40 + 130 * near
        pen.draw.rectangle(
            [x, y, x + length, y + 1 + 3 * near], fill=(*(mix(horizon, WHITE, 0.3) if lit else shade(sea, 1.35)), 150)
        )
    for place in pen.shuffled([180, 470, 740])[: int(pen.uniform(1, 4))]:
        _boat(pen, (place + pen.uniform(-70, 70), pen.uniform(level + 40, level + 190)))


def _boat(pen: Pen, waterline: Point) -> None:
    x, y = waterline
    size, sail = (y - 250) / 3.0, pen.one_of([WHITE, WHITE, *BRIGHT])
    pen.draw.polygon(
        [
            (x - size, y - 0.2 * size),
            (x + size, y - 0.2 * size),
            (x + 0.7 * size, y + 0.12 * size),
            (x - 0.7 * size, y + 0.12 * size),
        ],
        fill=pen.one_of([(120, 60, 40), (240, 240, 236), (40, 60, 90)]),
    )
    pen.draw.polygon([(x, y - 2.6 * size), (x, y - 0.35 * size), (x + 0.95 * size, y - 0.35 * size)], fill=sail)
    pen.draw.polygon(
        [(x - 0.06 * size, y - 2.3 * size), (x - 0.06 * size, y - 0.35 * size), (x - 0.8 * size, y - 0.35 * size)],
        fill=shade(sail, 0.86),
    )
    pen.draw.line([(x, y - 2.7 * size), (x, y - 0.2 * size)], fill=DARK, width=4)


def lighthouse(pen: Pen) -> None:
    """A striped tower on a cliff above the sea."""
    above, horizon = pen.one_of(SKIES)
    pen.gradient(above, horizon)
    pen.clouds(int(pen.uniform(1, 5)), 260, horizon)
    pen.ground(np.full(WIDTH // 4 + 1, 520.0), mix(above, (20, 70, 96), 0.5))
    side = pen.one_of([0, 1])
    places = np.linspace(0, 1, WIDTH // 4 + 1)
    slope = places if side else 1 - places
    pen.ground(
        pen.ridge(0, 10) + 760 - 260 * np.clip(slope * 2.2 - 0.5, 0, 1) ** 0.6,
        pen.one_of([(84, 98, 62), (96, 84, 70), (70, 92, 80)]),
    )
    x, foot, top, half = (
        (680.0 if side else 280.0) + pen.uniform(-60, 60),
        540.0,
        pen.uniform(130, 200),
        pen.uniform(42, 54),
    )
    band, n_bands = pen.one_of(BRIGHT[:3]), int(pen.uniform(4, 7))
    for k in range(n_bands):
        a, b = (foot + (top - foot) * (k + part) / n_bands for part in (0, 1))
        wide, narrow = (half * (1 - 0.42 * (k + part) / n_bands) for part in (0, 1))
        colour = band if k % 2 else WHITE
        pen.draw.polygon([(x - wide, a), (x + wide, a), (x + narrow, b), (x - narrow, b)], fill=colour)
        pen.draw.polygon(
            [(x + 0.25 * wide, a), (x + wide, a), (x + narrow, b), (x + 0.25 * narrow, b)], fill=(0, 0, 0, 46)
        )
    pen.draw.rectangle([x - 0.8 * half, top - 8, x + 0.8 * half, top], fill=DARK)
    pen.draw.rectangle([x - 0.4 * half, top - 52, x + 0.4 * half, top - 8], fill=(255, 236, 160))
    pen.draw.line([(x, top - 52), (x, top - 8)], fill=DARK, width=4)
    pen.draw.pieslice([x - 0.55 * half, top - 78, x + 0.55 * half, top - 26], 180, 360, fill=band)


def city(pen: Pen) -> None:
    """A skyline with lit windows, at dusk or at night."""
    above, horizon = pen.one_of(
        [((10, 14, 40), (70, 66, 120)), ((30, 30, 80), (240, 140, 100)), ((16, 30, 60), (120, 150, 190))]
    )
    pen.gradient(above, horizon)
    pen.glow((pen.uniform(100, 860), pen.uniform(70, 180)), 30, (250, 246, 226))
    for layer, (tallest, colour) in enumerate(
        [(420, mix(horizon, above, 0.45)), (330, mix(horizon, above, 0.8)), (250, (14, 16, 30))]
    ):
        x = -pen.uniform(0, 60)
        while x < WIDTH:
            width, top = pen.uniform(50, 120), HEIGHT - pen.uniform(0.45, 1.15) * tallest
            pen.draw.rectangle([x, top, x + width, HEIGHT], fill=colour)
            if pen.uniform(0, 1) < 0.25:
                pen.draw.polygon(
                    [(x + 0.3 * width, top), (x + 0.5 * width, top - 80), (x + 0.7 * width, top)], fill=colour
                )
            rows, columns = np.arange(top + 14, HEIGHT, 22), np.arange(x + 8, x + width - 12, 16)
            for row in rows if layer else []:
                for column in columns[pen.rng.random(len(columns)) < 0.42]:
                    pen.draw.rectangle([column, row, column + 8, row + 11], fill=(255, 220, 130, 150 + 40 * layer))
            x += width + pen.uniform(0, 14)


def balloons(pen: Pen) -> None:
    """Hot-air balloons over hills."""
    above, horizon = pen.one_of([SKIES[0], SKIES[3], SKIES[4]])
    pen.gradient(above, horizon)
    pen.clouds(int(pen.uniform(1, 5)), 420, horizon)
    for layer in range(2):
        pen.ground(pen.ridge(600 + 55 * layer, 50), pen.one_of([(98, 130, 84), (120, 128, 80), (74, 112, 90)]))
    count = int(pen.uniform(1, 5))
    for place in pen.shuffled([200, 420, 620, 820])[:count]:
        _balloon(
            pen, (place + pen.uniform(-50, 50), pen.uniform(200, 360)), pen.uniform(60, 110) + (90 if count == 1 else 0)
        )


def _balloon(pen: Pen, centre: Point, radius: float) -> None:
    x, y = centre
    first, second = pen.shuffled(BRIGHT)[:2]
    angles = np.linspace(0, np.pi, 40)
    profile = np.where(angles < 1.9, np.sin(angles), np.sin(1.9) * (np.pi - angles) / (np.pi - 1.9) * 0.82 + 0.18)
    height = y - radius * np.cos(angles) * np.where(angles > np.pi / 2, 1.35, 1)
    n_gores = 5
    for k in range(n_gores, 0, -1):
        wide = radius * np.sin(np.pi / 2 * k / n_gores)
        left = list(zip(x - wide * profile, height, strict=True))
        right = list(zip(x + wide * profile, height, strict=True))
        pen.draw.polygon(left + right[::-1], fill=shade(first if k % 2 else second, 0.8 + 0.05 * (n_gores - k)))
    bottom = y + 1.35 * radius
    for side in (-1, 1):
        pen.draw.line(
            [(x + side * 0.18 * radius, bottom), (x + side * 0.13 * radius, bottom + 0.4 * radius)], fill=DARK, width=2
        )
    pen.draw.rectangle(
        [x - 0.15 * radius, bottom + 0.35 * radius, x + 0.15 * radius, bottom + 0.6 * radius], fill=(122, 82, 48)
    )


def daisies(pen: Pen) -> None:
    """Flowers before a meadow that is out of focus."""
    meadow = pen.one_of([(70, 124, 58), (48, 98, 62), (96, 132, 54)])
    pen.gradient(shade(meadow, 1.25), shade(meadow, 0.6))
    for _ in range(60):
        tint = pen.one_of([shade(meadow, 1.5), shade(meadow, 0.7), (236, 226, 120)])
        pen.disc((pen.uniform(0, WIDTH), pen.uniform(0, HEIGHT)), pen.uniform(10, 50), (*tint, 120))
    pen.blur(16)
    petal = pen.one_of([WHITE, WHITE, (246, 226, 236), (250, 224, 120)])
    count = int(pen.uniform(1, 5))
    places = (
        [(480.0, 330.0)]
        if count == 1
        else pen.shuffled([(230.0, 240.0), (700.0, 220.0), (340.0, 520.0), (720.0, 520.0)])[:count]
    )
    for x, y in places:
        x, y, radius = (
            x + pen.uniform(-40, 40),
            y + pen.uniform(-40, 40),
            pen.uniform(105, 150) + (110 if count == 1 else 0),
        )
        pen.draw.line([(x, y), (x + pen.uniform(-90, 90), HEIGHT)], fill=shade(meadow, 0.75), width=14)
        turn, n_petals = pen.uniform(0, 1), int(pen.uniform(16, 26))
        pen.petals((x, y), radius, n_petals, 0.11, shade(petal, 0.84), turn)
        pen.petals((x, y), radius * 0.93, n_petals, 0.10, petal, turn + 0.14)
        for step in range(10):
            pen.disc(
                (x - step, y - step), radius * 0.27 * (1 - step / 12), mix((196, 128, 20), (255, 214, 60), step / 9)
            )


def clock(pen: Pen) -> None:
    """A clock on a wall."""
    wall = pen.one_of([(206, 200, 188), (150, 172, 186), (190, 160, 140), (120, 140, 120), (228, 214, 190)])
    pen.gradient(shade(wall, 1.08), shade(wall, 0.82))
    x, y, radius = 480 + pen.uniform(-60, 60), 360 + pen.uniform(-20, 20), pen.uniform(220, 290)
    rim = pen.one_of([DARK, (120, 70, 40), (160, 40, 40), (190, 160, 80), (60, 90, 120)])
    for step in range(12):
        pen.disc((x + 10, y + 16), radius + 16 - step, (0, 0, 0, 12))
    pen.disc((x, y), radius, rim)
    pen.disc((x, y), radius * 0.97, shade(rim, 1.4))
    pen.disc((x, y), radius * 0.9, pen.one_of([WHITE, (244, 236, 214), (250, 250, 250)]))
    for tick in range(60):
        long = tick % 5 == 0
        hand(pen, (x, y), radius * (0.74 if long else 0.8), radius * 0.84, tick / 60, 9 if long else 3)
    minutes, hours = pen.uniform(0, 1), pen.uniform(0, 1)
    hand(pen, (x, y), -0.1 * radius, radius * 0.5, hours, 20)
    hand(pen, (x, y), -0.12 * radius, radius * 0.74, minutes, 12)
    hand(pen, (x, y), -0.16 * radius, radius * 0.78, pen.uniform(0, 1), 4, (196, 40, 36))
    pen.disc((x, y), 16, DARK)


def hand(pen: Pen, centre: Point, start: float, stop: float, turn: float, width: int, colour: Colour = DARK) -> None:
    """A line away from a centre; ``turn`` is the share of a full turn, from the top on."""
    a, b = math.sin(2 * math.pi * turn), -math.cos(2 * math.pi * turn)
    ends = [(centre[0] + a * r, centre[1] + b * r) for r in (start, stop)]
    pen.draw.line(ends, fill=colour, width=width)


def glass(pen: Pen) -> None:
    """A window of stained glass: what is nearest to one of some points has one colour."""
    from scipy.spatial import cKDTree

    side = pen.uniform(70, 140)
    corners = np.stack(np.meshgrid(np.arange(0, WIDTH, side), np.arange(0, HEIGHT, side)), axis=-1).reshape(-1, 2)
    points = corners + pen.rng.uniform(0.05 * side, 0.95 * side, corners.shape)
    tints = pen.shuffled(BRIGHT)[: int(pen.uniform(2, 8))]
    colours = np.array([mix(pen.one_of(tints), WHITE, pen.uniform(0, 0.35)) for _ in points], np.float32)
    grid = np.stack(np.meshgrid(np.arange(0, WIDTH, 2), np.arange(0, HEIGHT, 2)), axis=-1)
    distances, cells = map(np.asarray, cKDTree(points).query(grid, 2))
    streaks = 1 + 0.06 * np.sin(grid[..., :1] / 9 + 3 * np.sin(grid[..., 1:] / 40))
    light = np.maximum(0.55, 1.3 - distances[..., :1] / 150) * streaks
    lead = distances[..., 1:] - distances[..., :1] < 9
    pen.paint(np.where(lead, 26, colours[cells[..., 0]] * light).repeat(2, axis=0).repeat(2, axis=1))


def web(pen: Pen) -> None:
    """A spider's web in front of leaves."""
    tint = pen.one_of([(34, 60, 40), (30, 40, 56), (60, 50, 36)])
    pen.gradient(shade(tint, 1.5), shade(tint, 0.5))
    for _ in range(50):
        pen.disc(
            (pen.uniform(0, WIDTH), pen.uniform(0, HEIGHT)),
            pen.uniform(20, 70),
            (*shade(tint, pen.uniform(0.6, 2.4)), 90),
        )
    pen.blur(22)
    x, y, n_spokes = 480 + pen.uniform(-110, 110), 350 + pen.uniform(-70, 70), int(pen.uniform(15, 24))
    angles = np.sort(np.linspace(0, 2 * np.pi, n_spokes, endpoint=False) + pen.rng.uniform(-0.09, 0.09, n_spokes))
    for angle in angles:
        pen.draw.line([(x, y), (x + 900 * np.cos(angle), y + 900 * np.sin(angle))], fill=(236, 240, 244, 190), width=3)
    for radius in np.arange(24, 520, pen.uniform(13, 20)):
        lengths = radius * (1 + pen.rng.uniform(-0.03, 0.03, n_spokes))
        knots = [(x + r * np.cos(a), y + r * np.sin(a)) for r, a in zip(lengths, angles, strict=True)]
        for (ax, ay), (bx, by) in zip(knots, knots[1:] + knots[:1], strict=True):
            middle = (0.5 * (ax + bx) * 0.93 + 0.07 * x, 0.5 * (ay + by) * 0.93 + 0.07 * y)
            pen.draw.line([(ax, ay), middle, (bx, by)], fill=(236, 240, 244, 150), width=2)


def maze(pen: Pen) -> None:
    """A maze: every two places are joined by one way."""
    side = pen.one_of([36, 44, 56])
    rows, columns = HEIGHT // side, WIDTH // side
    paper, wall = pen.one_of(
        [
            (WHITE, DARK),
            ((236, 228, 206), (90, 60, 40)),
            ((222, 232, 238), (30, 60, 110)),
            ((70, 110, 60), (206, 196, 160)),
        ]
    )
    pen.gradient(wall, wall)
    seen, way = {(0, 0)}, [(0, 0)]
    while way:
        row, column = way[-1]
        pen.draw.rectangle(
            [column * side + 7, row * side + 7, (column + 1) * side - 7, (row + 1) * side - 7], fill=paper
        )
        around = [(row + a, column + b) for a, b in ((0, 1), (1, 0), (0, -1), (-1, 0))]
        free = [p for p in around if 0 <= p[0] < rows and 0 <= p[1] < columns and p not in seen]
        if not free:
            way.pop()
            continue
        after = pen.one_of(free)
        low, high = min(after, way[-1]), max(after, way[-1])
        pen.draw.rectangle(
            [low[1] * side + 7, low[0] * side + 7, (high[1] + 1) * side - 7, (high[0] + 1) * side - 7], fill=paper
        )
        seen.add(after)
        way.append(after)


def trees(pen: Pen) -> None:
    """A tree in one of the four seasons."""
    above, horizon = pen.one_of([SKIES[0], SKIES[3], SKIES[4], SKIES[2]])
    leaves, field = pen.one_of(
        [
            ((86, 142, 60), (112, 150, 76)),
            ((224, 130, 40), (170, 150, 84)),
            ((244, 190, 206), (128, 166, 92)),
            (None, (236, 240, 244)),
        ]
    )
    pen.gradient(above, horizon)
    pen.ground(pen.ridge(560, 26), mix(field, horizon, 0.35))
    pen.ground(pen.ridge(610, 16), field)
    tips: list[Point] = []
    _branch(pen, (480 + pen.uniform(-120, 120), 640), -math.pi / 2, pen.uniform(120, 150), 26, tips)
    for x, y in pen.shuffled(tips) if leaves else []:
        pen.disc(
            (x + pen.uniform(-12, 12), y + pen.uniform(-12, 12)),
            pen.uniform(9, 24),
            (*shade(leaves, pen.uniform(0.72, 1.2)), 210),
        )


def _branch(pen: Pen, start: Point, angle: float, length: float, width: float, tips: list[Point]) -> None:
    end = (start[0] + length * math.cos(angle), start[1] + length * math.sin(angle))
    pen.draw.line([start, end], fill=(74, 54, 42), width=max(2, int(width)))
    if length < 34:
        tips.append(end)
    if length < 16:
        return
    for side in (-1, 1):
        turn = angle + side * pen.uniform(0.22, 0.62)
        _branch(pen, end, turn, length * pen.uniform(0.68, 0.84), width * 0.68, tips)


SCENES: dict[str, Callable[[Pen], None]] = {
    scene.__name__: scene
    for scene in (mountains, sailing, lighthouse, city, balloons, daisies, clock, glass, web, maze, trees)
}


def drawn(scene: str, number: int) -> Any:
    """A picture of a scene; another one for each number."""
    pen = Pen(1000 * list(SCENES).index(scene) + number)
    SCENES[scene](pen)
    return pen.picture()

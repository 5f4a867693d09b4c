"""Copies of photographs as people make them: two sets, one to build with and one to judge with.

No alteration of ``JUDGING`` has the kind and strength of one of ``BUILDING``, except where the target itself names the
strength (JPEG quality 30, brightness ± 20 %, mirror images, quarter turns).
"""

import io
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageFont, ImageOps
from PIL.Image import Resampling, Transpose

Alter = Callable[[Image.Image], Image.Image]


class Alteration(NamedTuple):
    """One way to copy a photograph, and the target it belongs to."""

    target: str
    alter: Alter


def then(*steps: Alter) -> Alter:
    """Several alterations, one after the other."""

    def alter(image: Image.Image) -> Image.Image:
        for step in steps:
            image = step(image)
        return image

    return alter


def scaled(share: float, resampling: Resampling = Resampling.LANCZOS) -> Alter:
    return lambda image: image.resize((round(image.width * share), round(image.height * share)), resampling)


def fitted(side: int) -> Alter:
    """The longer side becomes ``side``."""
    return lambda image: ImageOps.contain(image, (side, side))


def stretched(across: float, down: float) -> Alter:
    return lambda image: image.resize((round(image.width * across), round(image.height * down)))


def stored(kind: str, **options: int) -> Alter:
    """Written in a format and read again."""

    def alter(image: Image.Image) -> Image.Image:
        buffer = io.BytesIO()
        image.save(buffer, kind, **options)
        return Image.open(buffer).convert("RGB")

    return alter


def few_colours(colours: int) -> Alter:
    return lambda image: image.quantize(colours).convert("RGB")


def turned(way: Transpose) -> Alter:
    return lambda image: image.transpose(way)


def grey(image: Image.Image) -> Image.Image:
    return ImageOps.grayscale(image).convert("RGB")


def one_channel(channel: str) -> Alter:
    return lambda image: image.getchannel(channel).convert("RGB")


def brighter(factor: float) -> Alter:
    return lambda image: ImageEnhance.Brightness(image).enhance(factor)


def contrast(factor: float) -> Alter:
    return lambda image: ImageEnhance.Contrast(image).enhance(factor)


def coloured(factor: float) -> Alter:
    return lambda image: ImageEnhance.Color(image).enhance(factor)


def gamma(power: float) -> Alter:
    return lambda image: image.point([round(255 * (i / 255) ** power) for i in range(256)] * 3)


def tinted(red: float, green: float, blue: float) -> Alter:
    gains = (red, green, blue)
    return lambda image: image.point([min(255, round(i * gain)) for gain in gains for i in range(256)])


def faded(floor: int, top: int) -> Alter:
    """Blacks lifted and whites lowered."""
    return lambda image: image.point([floor + i * (top - floor) // 255 for i in range(256)] * 3)


def sepia(image: Image.Image) -> Image.Image:
    return ImageOps.colorize(ImageOps.grayscale(image), (35, 20, 5), (255, 240, 200))


def vignette(strength: float) -> Alter:
    """Darker towards the corners."""

    def alter(image: Image.Image) -> Image.Image:
        y, x = np.mgrid[-1 : 1 : image.height * 1j, -1 : 1 : image.width * 1j]
        shade = 1 - strength * np.minimum((x**2 + y**2) / 2, 1)
        return Image.fromarray((np.asarray(image) * shade[..., None]).astype(np.uint8))

    return alter


def cropped(left: float, top: float, right: float, bottom: float) -> Alter:
    """Without a share of the width or height at each side."""

    def alter(image: Image.Image) -> Image.Image:
        width, height = image.size
        return image.crop(
            (round(left * width), round(top * height), round(width * (1 - right)), round(height * (1 - bottom)))
        )

    return alter


def all_round(share: float) -> Alter:
    return cropped(share, share, share, share)


def rotated(degrees: float, fill: str = "black", expand: bool = True) -> Alter:
    return lambda image: image.rotate(degrees, Resampling.BICUBIC, expand=expand, fillcolor=fill)


def rotated_inside(degrees: float) -> Alter:
    """Rotated and cropped so that no corner is empty, as photo programs straighten."""

    def alter(image: Image.Image) -> Image.Image:
        angle, (width, height) = np.radians(abs(degrees)), image.size
        longer, shorter = max(image.size), min(image.size)
        scale = 1 / (np.cos(angle) + np.sin(angle) * longer / shorter)
        across, down = width * scale / 2, height * scale / 2
        box = (width / 2 - across, height / 2 - down, width / 2 + across, height / 2 + down)
        return image.rotate(degrees, Resampling.BICUBIC).crop(tuple(map(round, box)))

    return alter


def bordered(share: float, colour: str) -> Alter:
    return lambda image: ImageOps.expand(image, round(share * min(image.size)), colour)


def framed(outer: float, inner: float, colours: tuple[str, str]) -> Alter:
    """A thin line, then a passe-partout."""
    return then(bordered(inner, colours[0]), bordered(outer, colours[1]))


def padded(aspect: float, colour: str) -> Alter:
    """Bars at two sides until width / height is ``aspect``."""

    def alter(image: Image.Image) -> Image.Image:
        width, height = image.size
        size = (round(height * aspect), height) if width / height < aspect else (width, round(width / aspect))
        return _pasted(image, Image.new("RGB", size, colour))

    return alter


def _pasted(image: Image.Image, canvas: Image.Image) -> Image.Image:
    canvas.paste(image, ((canvas.width - image.width) // 2, (canvas.height - image.height) // 2))
    return canvas


def _font(size: float) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(round(size))


def written(text: str, at: tuple[float, float], size: float, colour: tuple[int, int, int, int]) -> Alter:
    """Text centred at a place (shares of width and height), its height a share of the shorter side."""

    def alter(image: Image.Image) -> Image.Image:
        layer = Image.new("RGBA", image.size)
        place = (at[0] * image.width, at[1] * image.height)
        font = _font(size * min(image.size))
        ImageDraw.Draw(layer).text(
            place, text, colour, font, anchor="mm", stroke_width=1, stroke_fill=(0, 0, 0, colour[3])
        )
        return Image.alpha_composite(image.convert("RGBA"), layer).convert("RGB")

    return alter


def tiled_text(text: str, opacity: int) -> Alter:
    """A word all over the picture, slanted, as picture agencies do."""

    def alter(image: Image.Image) -> Image.Image:
        side = round(1.5 * max(image.size))
        layer = Image.new("RGBA", (side, side))
        draw, font = ImageDraw.Draw(layer), _font(min(image.size) / 14)
        for y in range(0, side, side // 9):
            for x in range(0, side, side // 5):
                draw.text((x, y), text, (255, 255, 255, opacity), font)
        layer = layer.rotate(30).crop(_middle(side, image.size))
        return Image.alpha_composite(image.convert("RGBA"), layer).convert("RGB")

    return alter


def _middle(side: int, size: tuple[int, int]) -> tuple[int, int, int, int]:
    left, top = (side - size[0]) // 2, (side - size[1]) // 2
    return left, top, left + size[0], top + size[1]


def logo(at: tuple[float, float], share: float, opacity: int) -> Alter:
    """A filled disc with a ring."""

    def alter(image: Image.Image) -> Image.Image:
        layer, radius = Image.new("RGBA", image.size), share * min(image.size) / 2
        x, y = at[0] * image.width, at[1] * image.height
        draw = ImageDraw.Draw(layer)
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), (255, 200, 0, opacity), (0, 0, 0, opacity), 4)
        return Image.alpha_composite(image.convert("RGBA"), layer).convert("RGB")

    return alter


def banner(text: str, share: float, at_top: bool) -> Alter:
    """A strip of caption added above or below, as memes have."""

    def alter(image: Image.Image) -> Image.Image:
        strip = round(share * image.height)
        canvas = Image.new("RGB", (image.width, image.height + strip), "white")
        canvas.paste(image, (0, strip if at_top else 0))
        y = strip / 2 if at_top else image.height + strip / 2
        ImageDraw.Draw(canvas).text((image.width / 2, y), text, "black", _font(0.5 * strip), anchor="mm")
        return canvas

    return alter


def screenshot(size: tuple[int, int], back: str, ink: str, words: str) -> Alter:
    """The picture in the middle of a screen with a status bar above and buttons below."""

    def alter(image: Image.Image) -> Image.Image:
        screen = _pasted(ImageOps.contain(image, (size[0], round(size[1] * 0.8))), Image.new("RGB", size, back))
        draw, font = ImageDraw.Draw(screen), _font(size[0] / 28)
        draw.text((size[0] * 0.04, size[1] * 0.012), "12:34", ink, font)
        draw.text((size[0] * 0.96, size[1] * 0.012), "87 %", ink, font, anchor="ra")
        for place, word in enumerate(words.split()):
            x = size[0] * (place + 0.5) / len(words.split())
            draw.text((x, size[1] * 0.965), word, ink, font, anchor="mm")
        return screen

    return alter


def noisy(sigma: float) -> Alter:
    def alter(image: Image.Image) -> Image.Image:
        noise = np.random.default_rng(0).normal(0, sigma, (image.height, image.width, 3))
        return Image.fromarray(np.clip(np.asarray(image) + noise, 0, 255).astype(np.uint8))

    return alter


def filtered(by: ImageFilter.Filter) -> Alter:
    return lambda image: image.filter(by)


def hidden(at: tuple[float, float], share: float, colour: str) -> Alter:
    """A square covers a part, as one hides a face or a number plate."""

    def alter(image: Image.Image) -> Image.Image:
        image, half = image.copy(), share * min(image.size) / 2
        x, y = at[0] * image.width, at[1] * image.height
        ImageDraw.Draw(image).rectangle((x - half, y - half, x + half, y + half), colour)
        return image

    return alter


WHITE = (255, 255, 255)
MIRROR, UPSIDE, QUARTER, HALF, BACK = (
    Transpose.FLIP_LEFT_RIGHT,
    Transpose.FLIP_TOP_BOTTOM,
    Transpose.ROTATE_90,
    Transpose.ROTATE_180,
    Transpose.ROTATE_270,
)

BUILDING: Mapping[str, Alteration] = {
    "resized to a half": Alteration("resize", scaled(0.5)),
    "resized to 160 pixels": Alteration("resize", fitted(160)),
    "JPEG quality 30": Alteration("JPEG", stored("JPEG", quality=30)),
    "JPEG quality 12": Alteration("other", stored("JPEG", quality=12)),
    "WebP": Alteration("format", stored("WEBP", quality=60)),
    "64 colours": Alteration("format", few_colours(64)),
    "grey": Alteration("grey", grey),
    "brightness + 20 %": Alteration("brightness", brighter(1.2)),
    "brightness - 20 %": Alteration("brightness", brighter(0.8)),
    "mirrored": Alteration("turn", turned(MIRROR)),
    "upside down": Alteration("turn", turned(UPSIDE)),
    "quarter turn": Alteration("turn", turned(QUARTER)),
    "half turn": Alteration("turn", turned(HALF)),
    "quarter turn back": Alteration("turn", turned(BACK)),
    "cropped 3 % per side": Alteration("crop", all_round(0.03)),
    "cropped 6 % per side": Alteration("crop", all_round(0.06)),
    "cropped 10 % per side": Alteration("crop", all_round(0.10)),
    "cropped 8 / 2 / 3 / 9 %": Alteration("crop", cropped(0.08, 0.02, 0.03, 0.09)),
    "watermark in the middle": Alteration("watermark", written("SAMPLE", (0.5, 0.5), 0.2, (*WHITE, 130))),
    "watermark all over": Alteration("watermark", tiled_text("example", 110)),
    "rotated 3°, black corners": Alteration("rotation", rotated(3)),
    "rotated −3°, cropped inside": Alteration("rotation", rotated_inside(-3)),
    "white border 6 %": Alteration("border", bordered(0.06, "white")),
    "black border 15 %": Alteration("border", bordered(0.15, "black")),
    "letterbox 16 : 9": Alteration("letterbox", padded(16 / 9, "black")),
    "letterbox 9 : 16": Alteration("letterbox", padded(9 / 16, "white")),
    "15 % off the left": Alteration("one-sided crop", cropped(0.15, 0, 0, 0)),
    "15 % off the bottom": Alteration("one-sided crop", cropped(0, 0, 0, 0.15)),
    "20 % off the right": Alteration("other", cropped(0, 0, 0.2, 0)),
    "grey, cropped 5 %, quality 40": Alteration("combined", then(grey, all_round(0.05), stored("JPEG", quality=40))),
    "mirrored, bordered, small": Alteration("combined", then(turned(MIRROR), bordered(0.05, "white"), fitted(300))),
    "quarter turn, darker, watermark": Alteration(
        "combined", then(turned(QUARTER), brighter(0.75), written("COPY", (0.5, 0.7), 0.15, (*WHITE, 140)))
    ),
    "screenshot, dark": Alteration("screenshot", screenshot((720, 1280), "black", "white", "Back Share Edit")),
    "filter: sepia": Alteration("filter", sepia),
    "filter: contrast, vignette": Alteration("filter", then(contrast(1.3), vignette(0.5))),
    "filter: faded": Alteration("filter", faded(50, 230)),
    "filter: gamma 1.5": Alteration("filter", gamma(1.5)),
    "caption below": Alteration("text", banner("when it blooms", 0.14, at_top=False)),
    "text on top": Alteration("text", written("HELLO SPRING", (0.5, 0.12), 0.12, (*WHITE, 255))),
    "stretched to a square": Alteration("other", stretched(0.75, 1)),
    "blurred": Alteration("other", filtered(ImageFilter.GaussianBlur(3))),
    "noise": Alteration("other", noisy(20)),
    "partly hidden": Alteration("other", hidden((0.6, 0.35), 0.22, "black")),
}

JUDGING: Mapping[str, Alteration] = {
    "resized to 35 %": Alteration("resize", scaled(0.35, Resampling.BICUBIC)),
    "resized to 170 %": Alteration("resize", scaled(1.7, Resampling.BILINEAR)),
    "resized to 96 pixels": Alteration("resize", fitted(96)),
    "JPEG quality 30": Alteration("JPEG", stored("JPEG", quality=30)),
    "GIF": Alteration("format", stored("GIF")),
    "PNG, 24 colours": Alteration("format", then(few_colours(24), stored("PNG"))),
    "WebP quality 20": Alteration("format", stored("WEBP", quality=20)),
    "JPEG 2000": Alteration("format", stored("JPEG2000")),
    "grey": Alteration("grey", grey),
    "grey, green channel": Alteration("grey", one_channel("G")),
    "brightness + 20 %": Alteration("brightness", brighter(1.2)),
    "brightness − 20 %": Alteration("brightness", brighter(0.8)),
    "mirrored": Alteration("turn", turned(MIRROR)),
    "upside down": Alteration("turn", turned(UPSIDE)),
    "quarter turn": Alteration("turn", turned(QUARTER)),
    "half turn": Alteration("turn", turned(HALF)),
    "quarter turn back": Alteration("turn", turned(BACK)),
    "transposed": Alteration("turn", turned(Transpose.TRANSPOSE)),
    "cropped 4 % per side": Alteration("crop", all_round(0.04)),
    "cropped 8 % per side": Alteration("crop", all_round(0.08)),
    "cropped 9.5 % per side": Alteration("crop", all_round(0.095)),
    "cropped 10 / 0 / 0 / 10 %": Alteration("crop", cropped(0.10, 0, 0, 0.10)),
    "cropped 2 / 9 / 7 / 4 %": Alteration("crop", cropped(0.02, 0.09, 0.07, 0.04)),
    "watermark, lower corner": Alteration("watermark", written("© A. Name 2024", (0.72, 0.93), 0.07, (*WHITE, 200))),
    "watermark, large": Alteration("watermark", written("PROOF", (0.45, 0.55), 0.28, (200, 200, 200, 110))),
    "watermark all over, faint": Alteration("watermark", tiled_text("stock photo", 80)),
    "watermark, disc": Alteration("watermark", logo((0.8, 0.2), 0.25, 170)),
    "rotated 3°, white corners": Alteration("rotation", rotated(3, "white")),
    "rotated −3°, same size": Alteration("rotation", rotated(-3, expand=False)),
    "rotated 2.5°, cropped inside": Alteration("rotation", rotated_inside(2.5)),
    "grey border 9 %": Alteration("border", bordered(0.09, "#888888")),
    "red border 3 %": Alteration("border", bordered(0.03, "#aa1122")),
    "white border 25 %": Alteration("border", bordered(0.25, "white")),
    "frame of two colours": Alteration("border", framed(0.08, 0.015, ("black", "white"))),
    "letterbox 2.35 : 1": Alteration("letterbox", padded(2.35, "black")),
    "letterbox 1 : 1, white": Alteration("letterbox", padded(1, "white")),
    "letterbox 3 : 5": Alteration("letterbox", padded(0.6, "black")),
    "15 % off the top": Alteration("one-sided crop", cropped(0, 0.15, 0, 0)),
    "15 % off the right": Alteration("one-sided crop", cropped(0, 0, 0.15, 0)),
    "13 % off the left": Alteration("one-sided crop", cropped(0.13, 0, 0, 0)),
    "mirrored, grey, quality 35": Alteration("combined", then(turned(MIRROR), grey, stored("JPEG", quality=35))),
    "cropped 7 %, brighter, small": Alteration("combined", then(all_round(0.07), brighter(1.15), fitted(200))),
    "quarter turn, white border": Alteration("combined", then(turned(BACK), bordered(0.1, "white"))),
    "rotated 2°, contrast, watermark": Alteration(
        "combined", then(rotated_inside(2), contrast(1.2), written("draft", (0.3, 0.8), 0.12, (*WHITE, 150)))
    ),
    "letterbox, quality 25, sepia": Alteration(
        "combined", then(sepia, padded(16 / 10, "black"), stored("JPEG", quality=25))
    ),
    "screenshot, light": Alteration("screenshot", screenshot((828, 1792), "white", "#222222", "Like Reply Send Save")),
    "screenshot, wide": Alteration("screenshot", screenshot((1366, 768), "#202124", "#e0e0e0", "Open Print Share")),
    "filter: warm": Alteration("filter", then(tinted(1.15, 1.0, 0.8), coloured(1.3))),
    "filter: cold, faded": Alteration("filter", then(tinted(0.85, 0.97, 1.1), faded(30, 240))),
    "filter: strong contrast": Alteration("filter", then(contrast(1.5), coloured(0.6))),
    "filter: gamma 0.65": Alteration("filter", gamma(0.65)),
    "filter: dark edges, grey": Alteration("filter", then(grey, vignette(0.7))),
    "caption above": Alteration("text", banner("nobody: / me in April:", 0.18, at_top=True)),
    "two lines of text": Alteration(
        "text",
        then(
            written("ONE DOES NOT SIMPLY", (0.5, 0.1), 0.09, (*WHITE, 255)),
            written("PICK FLOWERS", (0.5, 0.9), 0.1, (*WHITE, 255)),
        ),
    ),
    "stretched by a fifth": Alteration("other", stretched(1.2, 1)),
    "sharpened": Alteration("other", filtered(ImageFilter.UnsharpMask(4, 180))),
    "posterised": Alteration("other", lambda image: ImageOps.posterize(image, 3)),
    "noise, grey": Alteration("other", then(grey, noisy(15))),
}

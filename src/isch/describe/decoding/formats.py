"""The supported formats, how each is recognised, and how much one picture may cost.

The first bytes of a file choose one reader, and no other is tried. Some formats are left out because their reader in
Pillow starts another program (EPS, WMF), decodes before the size is known (ICO, ICNS, CUR), or works pixel by pixel in
Python (QOI, DDS, BLP, XPM and others).
"""

from dataclasses import dataclass
from typing import BinaryIO

from isch.errors import FormatError

MIB = 1 << 20
MEGA = 1_000_000
HEAD = 64  # bytes that tell formats apart


@dataclass(frozen=True)
class Limits:
    """How much one picture may cost.

    Parameters
    ----------
    file_bytes
        Size of the file, or of the byte string.
    pixels
        Pixels to decode. A format that needs more memory per pixel has its own, lower limit.
    jpeg_pixels
        Pixels of a JPEG that is decoded at reduced size, so that it is never in memory as a whole.
    """

    file_bytes: int = 4096 * MIB
    pixels: int = 160 * MEGA
    jpeg_pixels: int = 1000 * MEGA


LIMITS = Limits()


@dataclass(frozen=True)
class Format:
    """A supported format."""

    name: str
    reader: str  # module:class, a subclass of PIL.ImageFile.ImageFile; empty for camera RAW
    suffixes: tuple[str, ...]
    pixels: int = LIMITS.pixels  # keeps one picture near 1 GiB of memory: 4 to 20 bytes per pixel, by format
    file_bytes: int = LIMITS.file_bytes  # lower where the reader holds the whole file
    header_bytes: int = 64 * MIB  # read before the size is known
    extra: str = "images"

    def check(self, width: int, height: int, limits: Limits) -> None:
        """Refuse a picture with more pixels than the format or the caller allows."""
        self.check_most(width, height, min(self.pixels, limits.pixels))

    def check_most(self, width: int, height: int, most: int) -> None:
        """Refuse a picture with more than ``most`` pixels."""
        if width * height > most:
            raise FormatError(
                f"{width} × {height} pixels are too many for a picture of format {self.name}; "
                f"the limit is {most / MEGA:g} million pixels"
            )


JPEG = Format("JPEG", "PIL.JpegImagePlugin:JpegImageFile", ("jpg", "jpeg", "jpe", "jfif", "mpo"))
PROGRESSIVE_PIXELS = 100 * MEGA  # of a JPEG in several scans, which is in memory as a whole beside the result
PNG = Format("PNG", "PIL.PngImagePlugin:PngImageFile", ("png", "apng"))
GIF = Format("GIF", "PIL.GifImagePlugin:GifImageFile", ("gif",))
BMP = Format("BMP", "PIL.BmpImagePlugin:BmpImageFile", ("bmp", "dib"))
TIFF = Format("TIFF", "PIL.TiffImagePlugin:TiffImageFile", ("tif", "tiff"), header_bytes=512 * MIB)  # with layers
WEBP = Format("WebP", "PIL.WebPImagePlugin:WebPImageFile", ("webp",), 60 * MEGA, 256 * MIB, 256 * MIB)
AVIF = Format("AVIF", "PIL.AvifImagePlugin:AvifImageFile", ("avif",), 100 * MEGA, 32 * MIB, 32 * MIB)
HEIF = Format(
    "HEIF", "pillow_heif:HeifImageFile", ("heic", "heif", "hif"), 100 * MEGA, 256 * MIB, 256 * MIB, extra="photos"
)
JPEG2000 = Format("JPEG 2000", "PIL.Jpeg2KImagePlugin:Jpeg2KImageFile", ("jp2", "j2k", "jpf", "jpx"), 50 * MEGA)
PSD = Format("PSD", "PIL.PsdImagePlugin:PsdImageFile", ("psd",))
PPM = Format("PPM", "PIL.PpmImagePlugin:PpmImageFile", ("ppm", "pgm", "pbm", "pnm", "pfm"))
PLAIN_PPM = Format("PPM", "PIL.PpmImagePlugin:PpmImageFile", (), file_bytes=16 * MIB)
PCX = Format("PCX", "PIL.PcxImagePlugin:PcxImageFile", ("pcx",))
TGA = Format("TGA", "PIL.TgaImagePlugin:TgaImageFile", ("tga",))
RAW = Format(
    "RAW",
    "",
    (
        *("3fr", "arw", "cr2", "cr3", "crw", "dcr", "dng", "erf", "fff", "iiq", "kdc", "mef", "mos", "mrw", "nef"),
        *("nrw", "orf", "pef", "raf", "raw", "rw2", "rwl", "sr2", "srf", "srw", "x3f"),
    ),
    file_bytes=512 * MIB,
    extra="photos",
)

FORMATS = (JPEG, PNG, GIF, BMP, TIFF, WEBP, AVIF, HEIF, JPEG2000, PSD, PPM, PLAIN_PPM, PCX, TGA, RAW)
NAMES = ", ".join(dict.fromkeys(format.name for format in FORMATS))
SUFFIXES = frozenset(f".{suffix}" for format in FORMATS for suffix in format.suffixes)
RAW_SUFFIXES = frozenset(f".{suffix}" for suffix in RAW.suffixes)

SIGNATURES = (  # (position, bytes, format), more specific ones first
    (0, b"\xff\xd8\xff", JPEG),
    (0, b"\x89PNG\r\n\x1a\n", PNG),
    (0, b"GIF87a", GIF),
    (0, b"GIF89a", GIF),
    (0, b"BM", BMP),
    (8, b"CR\x02\x00", RAW),  # Canon, otherwise a TIFF
    (6, b"HEAPCCDR", RAW),  # Canon
    (0, b"FUJIFILMCCD-RAW", RAW),
    (0, b"IIU\0", RAW),  # Panasonic, Leica
    (0, b"IIRO", RAW),  # Olympus
    (0, b"IIRS", RAW),
    (0, b"MMOR", RAW),
    (0, b"FOVb", RAW),  # Sigma
    (0, b"\0MRM", RAW),  # Minolta
    (0, b"II*\0", TIFF),
    (0, b"MM\0*", TIFF),
    (8, b"WEBPVP8", WEBP),
    (0, b"\0\0\0\x0cjP  \r\n\x87\n", JPEG2000),
    (0, b"\xff\x4f\xff\x51", JPEG2000),
    (0, b"8BPS\0\x01", PSD),
    *((0, magic, PPM) for magic in (b"P4", b"P5", b"P6", b"Pf")),
    *((0, magic, PLAIN_PPM) for magic in (b"P1", b"P2", b"P3")),
    *((0, bytes([10, version, 1]), PCX) for version in (0, 2, 3, 5)),
)
BRANDS = (  # of ISO media files
    (AVIF, (b"avif", b"avis")),
    (HEIF, (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs")),
    (RAW, (b"crx ",)),  # Canon CR3
)


def recognised(head: bytes) -> Format | None:
    """The format of a file by its first ``HEAD`` bytes; camera RAW that looks like a TIFF counts as TIFF."""
    if head[4:8] == b"ftyp":
        return _media(head)
    return next((format for at, magic, format in SIGNATURES if head.startswith(magic, at)), None)


def recognised_file(file: BinaryIO, name: str = "") -> Format:
    """The format of an open file; its name is used only where the content does not decide."""
    file.seek(0)
    head = file.read(HEAD)
    if not head:
        raise FormatError("the file is empty")
    suffix = name[name.rfind(".") :].lower()
    format = recognised(head)
    if format is TIFF and suffix in RAW_SUFFIXES:
        return RAW
    if format is None and suffix == ".tga" and _may_be_tga(head):
        return TGA
    if format is None:
        raise FormatError(f"not a picture in a supported format ({', '.join(dict.fromkeys(f.name for f in FORMATS))})")
    return format


def _media(head: bytes) -> Format | None:
    """By the brands of an ISO media file: the major one, then the compatible ones."""
    size = int.from_bytes(head[:4], "big")
    brands = [head[at : at + 4] for at in (8, *range(16, min(size, len(head)) - 3, 4))]
    return next((format for brand in brands for format, known in BRANDS if brand in known), None)


def _may_be_tga(head: bytes) -> bool:
    """Whether the header makes sense as TGA, which has no signature."""
    return len(head) >= 18 and head[1] in (0, 1) and head[2] in (1, 2, 3, 9, 10, 11) and head[16] in (8, 16, 24, 32)

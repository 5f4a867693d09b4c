"""Downloads, checked against a checksum and unpacked; no half-written file is left behind."""

from dataclasses import dataclass
from pathlib import Path

from isch.errors import MissingData, require


@dataclass(frozen=True)
class Download:
    """A file that may be downloaded freely."""

    url: str
    checksum: str  # "md5:…" or "sha256:…"
    unpack: bool = False  # a .tar.gz, whose members go to the same folder


def fetch(download: Download, folder: Path) -> Path:
    """Download into ``folder`` with a progress bar, unless it is there already with the right checksum."""
    pooch = require("pooch", "datasets")
    require("tqdm", "datasets")
    name = download.url.rpartition("/")[2]
    processor = pooch.Untar(extract_dir=".") if download.unpack else None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pooch.retrieve(download.url, download.checksum, name, folder, processor=processor, progressbar=True)
    except Exception as error:  # pooch passes on whatever the network, the disk or the checksum raised
        raise MissingData(f"cannot download {download.url} to {folder}: {error}") from error
    return folder / name

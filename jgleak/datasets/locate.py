"""Finding the files of a data set: an explicit path, a local folder, the user's cache, or the official download.

The places are tried in this order:

1. ``path``, when the caller gives one. Nothing else is tried.
2. The folder named by the environment variable ``JGLEAK_DATA``.
3. The user's cache folder (``pooch.os_cache("jgleak")``).
4. The official public address, downloaded into the cache.

**Trust.** Files under ``path`` and ``JGLEAK_DATA`` are the user's own and are read as they are. What lies in the cache
is checked by SHA-256 each time it is used: against the checksum in ``Remote.sha256`` where one is known, and otherwise
against the checksum of the first download. That is *trust on first use*: the first download of such a file cannot be
checked, a warning says so, and the checksums are recorded beside it (``<place>.sha256``) and hold from then on.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import os
import tempfile
import warnings
import zipfile
import zlib
from pathlib import Path, PurePosixPath

import pooch

from jgleak.archives import check_growth

VARIABLE = "JGLEAK_DATA"
"""Environment variable that names the local data folder."""


@dataclasses.dataclass(frozen=True)
class Remote:
    """One official download.

    Attributes:
      url: its address; one ending in ``.zip`` is unpacked.
      sha256: checksum of the file, or None when it is not known (trusted on first use).
    """

    url: str
    sha256: str | None = None

    @property
    def name(self) -> str:
        """File name at the end of the address."""
        return self.url.rsplit("/", 1)[-1]


@dataclasses.dataclass(frozen=True)
class Source:
    """Where the files of a data set come from, and where they lie below a data folder.

    Attributes:
      name: the data set's name, for messages.
      place: a file (``moleculenet/tox21.csv.gz``) or a folder (``tudataset/MUTAG``), relative to a data folder.
      remotes: the file itself, or one zip archive, or every file of the folder.
      members: the files that the folder must hold; empty when ``place`` is a file.
      by_hand: where users fetch the files themselves, when terms forbid us to do it for them; no ``remotes`` then.
    """

    name: str
    place: str
    remotes: tuple[Remote, ...]
    members: tuple[str, ...] = ()
    by_hand: str = ""

    def present(self, candidate: Path) -> bool:
        """True when ``candidate`` is the file, or a folder with every member."""
        if not self.members:
            return candidate.is_file()
        return all((candidate / member).is_file() for member in self.members)

    def below(self, root: Path) -> Path | None:
        """The file or folder itself, at its place below ``root`` or directly in it; None when it is not there."""
        for candidate in (root, root / self.place, root / PurePosixPath(self.place).name):
            if self.present(candidate):
                return candidate
        return None


def cache() -> Path:
    """The user's cache folder, where downloads are kept."""
    return Path(pooch.os_cache("jgleak"))


def locate(source: Source, *, path: str | Path | None = None) -> Path:
    """The file or folder of ``source``; downloads it when no local copy is found (see the module's text).

    Raises:
      FileNotFoundError: ``path`` does not hold it, or it is nowhere and the download failed.
      ValueError: a cached or downloaded file does not have the checksum it must have.
    """
    if path is not None:
        found = source.below(Path(path).expanduser())
        if found is None:
            raise FileNotFoundError(f"path: {source.name} is not at {path}; expected {_wanted(source)} there")
        return found
    local = os.environ.get(VARIABLE)
    if local and Path(local).is_dir() and (found := source.below(Path(local))) is not None:
        return found
    kept = cache() / source.place
    if not source.present(kept) and source.by_hand:
        raise FileNotFoundError(
            f"{source.name}: {_wanted(source)} was not found in ${VARIABLE} ({local or 'not set'}) nor at {kept}. "
            f"It may not be passed on: download it yourself from {source.by_hand}, and unpack it there"
        )
    if not source.present(kept):
        _download(source, kept)
    _verify(source, kept)
    return kept


def _wanted(source: Source) -> str:
    return f"a folder with {', '.join(source.members)}" if source.members else f"the file {source.place}"


def _download(source: Source, kept: Path) -> None:
    """Fetch into a staging folder, check, record checksums, then move into place."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        staging = Path(folder)
        for remote in source.remotes:
            _fetch(source, remote, staging)
        missing = [member for member in source.members if not (staging / member).is_file()]
        if missing:
            raise ValueError(f"{source.name}: the download from {source.remotes[0].url} lacks {', '.join(missing)}")
        sums = {file.name: _sha256(file) for file in sorted(staging.iterdir())}
        record = _record(kept)
        if record.is_file():
            _compare(source, kept, sums)
        elif any(remote.sha256 is None for remote in source.remotes):
            warnings.warn(
                f"{source.name}: no checksum is known for {source.remotes[0].url}; this first download is trusted "
                f"and its SHA-256 is recorded in {record}",
                stacklevel=3,
            )
        record.write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))
        target = kept if source.members else kept.parent
        target.mkdir(exist_ok=True)
        for name in sums:
            os.replace(staging / name, target / name)


def _fetch(source: Source, remote: Remote, staging: Path) -> None:
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        known = None if remote.sha256 is None else f"sha256:{remote.sha256}"
        file = Path(pooch.retrieve(remote.url, known, fname=remote.name, path=staging))
    except OSError as error:
        raise FileNotFoundError(
            f"{source.name}: {_wanted(source)} was not found in ${VARIABLE} ({os.environ.get(VARIABLE) or 'not set'}) "
            f"nor at {cache() / source.place}, and downloading {remote.url} failed ({type(error).__name__}). "
            f"Set {VARIABLE} to a folder that holds {source.place}, or put it at {cache() / source.place}"
        ) from error
    finally:
        logger.setLevel(level)
    if file.suffix == ".zip":
        _unpack(source, file)


def _unpack(source: Source, archive: Path) -> None:
    """Unpack flat, by base name, so that no entry can leave the folder; the archive itself goes."""
    try:
        with zipfile.ZipFile(archive) as bundle:
            check_growth(bundle)
            for entry in bundle.infolist():
                if not entry.is_dir():
                    (archive.parent / PurePosixPath(entry.filename).name).write_bytes(bundle.read(entry))
    except (zipfile.BadZipFile, EOFError, zlib.error, RuntimeError, ValueError) as error:
        raise ValueError(f"{source.name}: the download {archive.name} is not a sound zip archive ({error})") from error
    archive.unlink()


def _verify(source: Source, kept: Path) -> None:
    """Check the cached files; files put there by hand, without a record, answer only to known checksums."""
    folder = kept if source.members else kept.parent
    names = list(_recorded(kept)) or list(source.members) or [kept.name]
    gone = [name for name in names if not (folder / name).is_file()]
    if gone:
        raise ValueError(f"{source.name}: {folder / gone[0]} is gone since its download; delete {kept} to fetch again")
    _compare(source, kept, {name: _sha256(folder / name) for name in names})


def _compare(source: Source, kept: Path, sums: dict[str, str]) -> None:
    expected = _recorded(kept) | {remote.name: remote.sha256 for remote in source.remotes if remote.sha256 is not None}
    for name, digest in sums.items():
        if name in expected and expected[name] != digest:
            raise ValueError(
                f"{source.name}: {name} has SHA-256 {digest}, expected {expected[name]}. The file was changed or "
                f"damaged; delete {kept} (and {_record(kept).name}, if you trust the new file) to fetch it again"
            )


def _record(kept: Path) -> Path:
    return kept.with_name(kept.name + ".sha256")


def _recorded(kept: Path) -> dict[str, str]:
    """File name to checksum, as recorded at the first download; empty without a record."""
    if not _record(kept).is_file():
        return {}
    lines = (line.split(maxsplit=1) for line in _record(kept).read_text().splitlines())
    return {name: digest for digest, name in lines}


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

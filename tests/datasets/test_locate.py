"""Order of places, checksums, trust on first use and the error of last resort, against a server on this machine."""

from __future__ import annotations

import functools
import hashlib
import io
import socket
import threading
import zipfile
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from jgleak.datasets.locate import Remote, Source, locate


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Keep the test output clean."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path]]:
    """An address, and the folder whose files it serves."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    folder = tmp_path / "served"
    folder.mkdir()
    running = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{running.server_address[1]}/", folder
    running.shutdown()
    thread.join()
    running.server_close()


def _file(address: str, content: bytes, known: bool = True) -> Source:
    digest = hashlib.sha256(content).hexdigest() if known else None
    return Source("Toy", "toys/toy.csv", (Remote(address + "toy.csv", digest),))


def test_explicit_path_is_the_only_place_asked(tmp_path: Path, own_cache: Path) -> None:
    source = _file("http://127.0.0.1:9/", b"x")
    (tmp_path / "toys").mkdir()
    (tmp_path / "toys/toy.csv").write_text("mine")
    assert locate(source, path=tmp_path) == tmp_path / "toys/toy.csv"
    assert locate(source, path=tmp_path / "toys") == tmp_path / "toys/toy.csv"
    assert locate(source, path=tmp_path / "toys/toy.csv") == tmp_path / "toys/toy.csv"
    with pytest.raises(FileNotFoundError, match="path: Toy is not at"):
        locate(source, path=tmp_path / "elsewhere")


def test_environment_goes_before_the_cache(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = _file("http://127.0.0.1:9/", b"cached")
    (own_cache / "toys").mkdir(parents=True)
    (own_cache / "toys/toy.csv").write_bytes(b"cached")
    assert locate(source).read_bytes() == b"cached"
    (tmp_path / "toy.csv").write_bytes(b"local")
    monkeypatch.setenv("JGLEAK_DATA", str(tmp_path))
    assert locate(source).read_bytes() == b"local"
    monkeypatch.setenv("JGLEAK_DATA", str(tmp_path / "nothing"))
    assert locate(source).read_bytes() == b"cached"


def test_download_with_known_checksum(server: tuple[str, Path], own_cache: Path) -> None:
    address, folder = server
    (folder / "toy.csv").write_bytes(b"a,b\n")
    found = locate(_file(address, b"a,b\n"))
    assert found == own_cache / "toys/toy.csv" and found.read_bytes() == b"a,b\n"
    (folder / "toy.csv").unlink()
    assert locate(_file(address, b"a,b\n")) == found
    found.write_bytes(b"changed")
    with pytest.raises(ValueError, match="SHA-256"):
        locate(_file(address, b"a,b\n"))


def test_wrong_download_is_refused_and_not_kept(server: tuple[str, Path], own_cache: Path) -> None:
    address, folder = server
    (folder / "toy.csv").write_bytes(b"forged")
    with pytest.raises(ValueError, match="hash"):
        locate(_file(address, b"original"))
    assert not list(own_cache.rglob("toy.csv"))


def test_trust_on_first_use_holds_ever_after(server: tuple[str, Path], own_cache: Path) -> None:
    address, folder = server
    (folder / "toy.csv").write_bytes(b"first")
    source = _file(address, b"", known=False)
    with pytest.warns(UserWarning, match="first download is trusted"):
        found = locate(source)
    assert hashlib.sha256(b"first").hexdigest() in (own_cache / "toys/toy.csv.sha256").read_text()
    assert locate(source) == found
    found.unlink()
    (folder / "toy.csv").write_bytes(b"second")
    with pytest.raises(ValueError, match="expected"):
        locate(source)


def test_archive_is_unpacked_flat_and_guarded(server: tuple[str, Path], own_cache: Path, tmp_path: Path) -> None:
    address, folder = server
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as bundle:
        bundle.writestr("TOY/TOY_A.txt", "1, 2")
        bundle.writestr("../../TOY_B.txt", "escaped?")
    (folder / "TOY.zip").write_bytes(packed.getvalue())
    source = Source("TOY", "tudataset/TOY", (Remote(address + "TOY.zip"),), ("TOY_A.txt",))
    with pytest.warns(UserWarning, match="trusted"):
        found = locate(source)
    assert sorted(file.name for file in found.iterdir()) == ["TOY_A.txt", "TOY_B.txt"]
    assert not list(tmp_path.glob("TOY_B.txt"))
    (found / "TOY_B.txt").write_text("tampered")
    with pytest.raises(ValueError, match=r"TOY_B\.txt has SHA-256"):
        locate(source)
    (found / "TOY_B.txt").unlink()
    with pytest.raises(ValueError, match="gone since its download"):
        locate(source)


def test_archive_must_be_one_and_hold_the_members(
    server: tuple[str, Path], own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, folder = server
    source = Source("TOY", "tudataset/TOY", (Remote(address + "TOY.zip"),), ("TOY_A.txt",))
    (folder / "TOY.zip").write_bytes(b"an error page")
    with pytest.raises(ValueError, match="not a sound zip archive"):
        locate(source)
    with zipfile.ZipFile(folder / "TOY.zip", "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("TOY_A.txt", "1, 2\n" * 20)
    whole = (folder / "TOY.zip").read_bytes()
    (folder / "TOY.zip").write_bytes(whole[:39] + b"\xff" * 9 + whole[48:])  # where the packed bytes begin
    with pytest.raises(ValueError, match="not a sound zip archive"):
        locate(source)
    (folder / "TOY.zip").write_bytes(whole)
    with monkeypatch.context() as small:
        small.setattr("jgleak.archives.LARGEST", 99)
        with pytest.raises(
            ValueError, match=r"TOY\.zip is not a sound zip archive \(it holds .* unpack to 100; at most 99"
        ):
            locate(source)
    with zipfile.ZipFile(folder / "TOY.zip", "w") as bundle:
        bundle.writestr("README.txt", "")
    with pytest.raises(ValueError, match=r"lacks TOY_A\.txt"):
        locate(source)


def test_without_network_one_error_says_what_and_where(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}/"
    with pytest.raises(FileNotFoundError) as error:
        locate(_file(address, b"x"))
    text = str(error.value)
    assert "toys/toy.csv" in text and str(own_cache) in text and "JGLEAK_DATA" in text and address in text

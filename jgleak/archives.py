"""Zip archives that would grow beyond all bounds when they are unpacked."""

from __future__ import annotations

from zipfile import ZipFile

LARGEST = 1 << 30
"""Most bytes of an archive's members, unpacked."""

SMALL = 64 << 20
"""Archives that unpack to less may be packed however well."""

PACKED = 200
"""Of larger ones the members have at most so many times the size that they take: text and numbers are never packed so
well."""


def check_growth(archive: ZipFile) -> None:
    """Raises ``ValueError`` for an archive whose members are too large, which their headers say before any is read."""
    members = archive.infolist()
    packed, unpacked = (sum(getattr(m, size) for m in members) for size in ("compress_size", "file_size"))
    if unpacked > LARGEST or (unpacked > SMALL and unpacked > PACKED * packed):
        raise ValueError(
            f"it holds {packed:,} bytes that unpack to {unpacked:,}; at most {LARGEST:,} are unpacked, and of more "
            f"than {SMALL:,} at most {PACKED} times what they take; give the files unpacked"
        )

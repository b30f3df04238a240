"""The build backend: scikit-build-core's, and one word more in editable installs.

pytest rewrites the modules of every distribution that has a `pytest11` entry point, as ours has,
and warns of those that are imported already. The finder of an editable install always is, so each
run of pytest began with a warning. The word in the docstring says that nothing is to be rewritten.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path
from typing import Any

from scikit_build_core import build as base
from scikit_build_core.build import (
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

_FINDER = "_editable_"
_DOCSTRING = b'"""Finds what was installed editable. PYTEST_DONT_REWRITE"""\n'


def build_editable(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build the editable wheel and mark its finder."""
    name = base.build_editable(wheel_directory, config_settings, metadata_directory)
    _mark_finder(Path(wheel_directory) / name)
    return name


def _mark_finder(wheel: Path) -> None:
    """Put the docstring first in the finder, and its new hash into the list of files."""
    with zipfile.ZipFile(wheel) as archive:
        members = {info: archive.read(info) for info in archive.infolist()}
    (finder,) = (
        info
        for info in members
        if info.filename.startswith(_FINDER) and info.filename.endswith(".py")
    )
    members[finder] = _DOCSTRING + members[finder]
    digest = base64.urlsafe_b64encode(hashlib.sha256(members[finder]).digest()).decode()
    line = f"{finder.filename},sha256={digest.rstrip('=')},{len(members[finder])}"
    (record,) = (info for info in members if info.filename.endswith(".dist-info/RECORD"))
    lines = members[record].decode().splitlines()
    kept = [each for each in lines if not each.startswith(f"{finder.filename},")]
    members[record] = "\n".join([line, *kept, ""]).encode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, content in members.items():
            archive.writestr(info, content)

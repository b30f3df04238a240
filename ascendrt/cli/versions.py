"""Versions that files of an installation tell, and whether they go together. Loads no library.

The files are `version.info`: lines KEY=VALUE. Those of a driver and a firmware name the ranges of
each other that they were made for (`compatible_version_fw=[7.0.0,7.2.99]`), those of a toolkit's
packages the interface of the driver that they need (`required_driver_ascendhal_version=4.0.0`).
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

INSTALL_INFO = Path("/etc/ascend_install.info")
DEFAULT_HOME = Path("/usr/local/Ascend")
_PACKAGES = ("runtime", "compiler", "opp", "toolkit", "acllib", "fwkacllib", "hccl")


@dataclass(frozen=True)
class Component:
    """One installed part: what its version.info says."""

    name: str
    file: Path
    facts: dict[str, str]

    @property
    def version(self) -> str:
        return self.facts.get("Version", "unknown")


@dataclass(frozen=True)
class Pair:
    """Two parts that one of them has an opinion about."""

    text: str
    fits: bool


def read(path: Path) -> dict[str, str]:
    """Return the KEY=VALUE lines of a file; nothing when it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    return dict(re.findall(r"^\s*([\w.]+)=\"?(.*?)\"?\s*$", text, re.M))


def driver_home(install_info: Path = INSTALL_INFO) -> Path:
    """Return where driver and firmware were installed."""
    facts = read(install_info)
    told = facts.get("Driver_Install_Path_Param") or facts.get("Install_Path_Param")
    return Path(told) if told else DEFAULT_HOME


def below_the_driver(home: Path) -> list[Component]:
    """Return driver and firmware, as far as they are installed."""
    return list(_components(home, ("driver", "firmware"), "{name}/version.info"))


def of_toolkit(root: Path) -> list[Component]:
    """Return the packages of a toolkit."""
    found = list(_components(root, _PACKAGES, "share/info/{name}/version.info"))
    found = found or list(_components(root, _PACKAGES, "{name}/version.info"))
    return [*_toolkit_itself(root), *found]


def _toolkit_itself(root: Path) -> Iterator[Component]:
    """Yield what the file of the whole toolkit says; its keys are small, one file per processor."""
    for path in sorted(root.glob("*-linux/ascend_toolkit_install.info")):
        if facts := read(path):
            yield Component("cann", path, {"Version": facts.get("version", "unknown"), **facts})


def _components(root: Path, names: tuple[str, ...], pattern: str) -> Iterator[Component]:
    for name in names:
        path = root / pattern.format(name=name)
        if facts := read(path):
            yield Component(name, path, facts)


def pairs(base: list[Component], toolkit: list[Component]) -> list[Pair]:
    """Return what the parts say of each other; nothing about those that say nothing."""
    parts = {part.name: part for part in base}
    driver, firmware = parts.get("driver"), parts.get("firmware")
    found = []
    if driver and firmware:
        for one, other, key in (
            (driver, firmware, "compatible_version_fw"),
            (firmware, driver, "compatible_version_drv"),
        ):
            if key in one.facts:
                text = f"{one.name} {one.version} was made for {other.name} {one.facts[key]}"
                fits = within(other.version, one.facts[key])
                found.append(Pair(f"{text}, found {other.version}", fits))
    for part in toolkit:
        if part.facts.get("arch", platform.machine()) != platform.machine():
            text = f"{part.name} {part.version} is for {part.facts['arch']}"
            found.append(Pair(f"{text}, this machine is {platform.machine()}", False))
        needed = part.facts.get("required_driver_ascendhal_version")
        offered = driver.facts.get("ascendhal_version") if driver else None
        if needed and offered:
            text = f"{part.name} {part.version} needs ascendhal {needed} of the driver"
            found.append(Pair(f"{text}, found {offered}", _key(offered) >= _key(needed)))
    packages = [part for part in toolkit if part.name != "cann"]  # counted otherwise: 8.0 is 7.3
    versions = {part.version for part in packages} - {"unknown"}
    if len(versions) > 1:
        told = ", ".join(f"{part.name} {part.version}" for part in packages)
        found.append(Pair(f"packages of one toolkit differ: {told}", len(_releases(versions)) == 1))
    return found


def within(version: str, ranges: str) -> bool:
    """True when a version is in one of "[low,high],..."; a high end covers what begins with it."""
    for low, high in re.findall(r"\[([^,\]]*),([^\]]*)\]", ranges):
        end = _key(high)
        if _key(low) <= _key(version) and _key(version)[: len(end)] <= end:
            return True
    return False


def _releases(versions: set[str]) -> set[tuple[tuple[int, str], ...]]:
    return {_key(version)[:2] for version in versions}


def _key(version: str) -> tuple[tuple[int, str], ...]:
    """Return a version as numbers to compare; "rc" comes before a number."""
    words = re.findall(r"\d+|[a-zA-Z]+", version)
    return tuple((int(word), "") if word.isdigit() else (-1, word.lower()) for word in words)

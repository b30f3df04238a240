"""Who may know whom, read from the source text: no compiler, no library.

A layer includes only lower ones and instruments stand beside them; time, randomness and the
environment each have one door; nothing above the backend loader knows which backend it runs on.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

LEVELS = {
    "base": 0,
    "clock": 1,
    "probe": 1,
    "ops": 1,
    "memory": 2,
    "core": 3,
    "model": 4,
    "opapi": 4,
    "hccl": 4,
    "abi": 5,
}
INSTRUMENTS = {"check", "trace"}  # see base, clock and probe; only abi/init.cpp sees them
INSTRUMENT_SEES = {"base", "clock", "probe"}
_COMMENT_OR_STRING = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", re.DOTALL
)


def code(text: str) -> str:
    """The text without comments; strings become empty, include lines and extern "C" stay."""

    def keep(match: re.Match[str]) -> str:
        before = text[max(0, match.start() - 12) : match.start()]
        if match.group().startswith('"') and re.search(r"(#\s*include|extern)\s+$", before):
            return match.group()
        return re.sub(r"[^\n]", " ", match.group())

    return _COMMENT_OR_STRING.sub(keep, text)


def sources(root: Path, *folders: str) -> Iterator[tuple[str, str]]:
    """(path below emulator, code) of the hand-written C++ files."""
    for folder in folders:
        for path in sorted((root / "emulator" / folder).rglob("*")):
            if path.suffix in (".cpp", ".hpp", ".h", ".inc"):
                yield path.relative_to(root / "emulator").as_posix(), code(path.read_text("utf-8"))


def all_sources(root: Path) -> Iterator[tuple[str, str]]:
    return sources(root, *LEVELS, *INSTRUMENTS)


def lines_with(path: str, text: str, pattern: str) -> list[str]:
    found = re.finditer(pattern, text)
    return [f"{path}:{text.count(chr(10), 0, m.start()) + 1}: {m.group().strip()}" for m in found]


def include_problem(path: str, included: str) -> str | None:
    """Why `path` must not include `included`, or None. Both are paths below emulator."""
    layer, other = Path(path).parts[0], Path(included).parts[0]
    if other == "gen":
        entries = included == "gen/prototypes.h" and layer != "abi"
        return "only abi declares entry points" if entries else None
    if other == layer or other not in LEVELS.keys() | INSTRUMENTS:
        return None
    if layer in INSTRUMENTS:
        return None if other in INSTRUMENT_SEES else f"{layer} sees only base, clock and probe"
    if other in INSTRUMENTS:
        return None if path == "abi/init.cpp" else "only abi/init.cpp knows the instruments"
    if LEVELS[other] >= LEVELS[layer]:
        return f"level {LEVELS[layer]} includes level {LEVELS[other]}"
    return None


def test_every_folder_is_a_layer(root: Path) -> None:
    folders = {p.name for p in (root / "emulator").iterdir() if p.is_dir()}
    assert folders <= LEVELS.keys() | INSTRUMENTS | {"gen"}


def test_includes_point_down(root: Path) -> None:
    problems = []
    for path, text in all_sources(root):
        for included in re.findall(r'#\s*include\s+"([^"]+)"', text):
            if problem := include_problem(path, included):
                problems.append(f"{path} includes {included}: {problem}")
    assert problems == []


@pytest.mark.parametrize(
    ("path", "included", "allowed"),
    [
        ("core/stream.hpp", "memory/memory.hpp", True),
        ("memory/pool.hpp", "core/stream.hpp", False),
        ("ops/conv.cpp", "memory/memory.hpp", False),
        ("check/race.cpp", "core/stream.hpp", False),
        ("abi/init.cpp", "check/race.hpp", True),
        ("core/runtime.cpp", "trace/ring.hpp", False),
        ("core/runtime.cpp", "gen/prototypes.h", False),
        ("core/runtime.cpp", "gen/abi.h", True),
    ],
)
def test_the_include_rule_itself(path: str, included: str, allowed: bool) -> None:
    assert (include_problem(path, included) is None) == allowed


ONE_DOOR = {
    "time": (
        ("clock/",),
        r"<chrono>|\bchrono::|\b(?:sleep_for|sleep_until|usleep|nanosleep|clock_gettime|gettimeofday"
        r"|clock_nanosleep|steady_clock|system_clock)\b",
    ),
    "randomness": (
        ("base/rng",),
        r"<random>|\b(?:mt19937\w*|random_device|default_random_engine|getrandom|s?rand|drand48)\b",
    ),
    "environment": (("base/config",), r"\b(?:secure_)?getenv\b|\benviron\b"),
    'extern "C"': (("abi/",), r'\bextern\s+"C"'),
    "entry points": (("abi/",), r"\bart_(?:emu|ctl)_\w+"),
}


@pytest.mark.parametrize("door", ONE_DOOR)
def test_one_door(root: Path, door: str) -> None:
    allowed, pattern = ONE_DOOR[door]
    problems = [
        line
        for path, text in all_sources(root)
        if not path.startswith(allowed)
        for line in lines_with(path, text, pattern)
    ]
    assert problems == []


def test_the_doors_see_code_only() -> None:
    text = 'int a; // getenv\nconst char* s = "getenv";\nextern "C" void f();\nx = getenv(y);\n'
    assert lines_with("f", code(text), r"\bgetenv\b") == ["f:4: getenv"]
    assert lines_with("f", code(text), r'extern\s+"C"') == ['f:3: extern "C"']


def test_the_binding_knows_no_emulator(root: Path) -> None:
    files = [*(root / "csrc").glob("*.c"), *(root / "csrc").glob("*.h")]
    assert files
    for path in files:
        included = re.findall(r'#\s*include\s+"([^"]+)"', path.read_text(encoding="utf-8"))
        own = ("gen/", "binding.h", "aclmodule.h", "looks.h")
        assert all(i.startswith(own) for i in included), path


# The loader, what asks the core for its own control entries, and what reports.
KNOWS_THE_BACKEND = {"_backend.py", "_ctl.py", "emu.py", "cli/info.py", "pytest_plugin.py"}
TOUCHES_FFI = {"_backend.py", "_lib.py", "_ctl.py", "_probe.py", "_census.py"}


def python_sources(root: Path) -> Iterator[tuple[str, ast.Module]]:
    package = root / "ascendrt"
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if not name.startswith("_gen/"):
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def backend_branches(tree: ast.AST) -> list[int]:
    """Lines of conditions that ask which backend this is."""
    lines = []
    for node in ast.walk(tree):
        test = getattr(node, "test", None)
        if not isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert) or test is None:
            continue
        for part in ast.walk(test):
            word = getattr(part, "attr", None) or getattr(part, "id", None)
            word = word or (part.value if isinstance(part, ast.Constant) else None)
            if isinstance(word, str) and re.search(r"emulat|^emu$|^real$|is_real", word):
                lines.append(part.lineno)
    return lines


def imports(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every imported module, and its names: "a.b" of `from a import b`, with the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((name.name, node.lineno) for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node.lineno
            yield from ((f"{node.module}.{name.name}", node.lineno) for name in node.names)


def test_serving_is_built_on_the_objects_and_one_clock(root: Path) -> None:
    """No time, thread or event loop but the clock's, and nothing below the objects."""
    banned = re.compile(
        r"(time|threading|_thread|asyncio|sched|queue|selectors|select|concurrent|multiprocessing"
        r"|ascendrt\._(?!slot)\w+)(\.|$)"
    )
    problems = [
        f"ascendrt/{name}:{line} {module}"
        for name, tree in python_sources(root)
        if name.startswith("serving/")
        for module, line in imports(tree)
        if banned.match(module)
    ]
    assert problems == []


def test_objects_know_nothing_of_serving(root: Path) -> None:
    problems = [
        f"ascendrt/{name}:{line}"
        for name, tree in python_sources(root)
        if not name.startswith("serving/") and name != "__init__.py"
        for module, line in imports(tree)
        if module.startswith("ascendrt.serving")
    ]
    assert problems == []


def test_nothing_above_the_loader_asks_for_the_backend(root: Path) -> None:
    problems = [
        f"ascendrt/{name}:{line}"
        for name, tree in python_sources(root)
        if name not in KNOWS_THE_BACKEND
        for line in backend_branches(tree)
    ]
    assert problems == []


def test_the_branch_rule_itself() -> None:
    assert backend_branches(ast.parse("if backend.kind == 'emu': pass"))
    assert backend_branches(ast.parse("x = 1 if is_emulator() else 2"))
    assert not backend_branches(ast.parse("if count == 0: raise ValueError('no real device')"))


def test_only_these_modules_touch_ffi(root: Path) -> None:
    problems = []
    for name, tree in python_sources(root):
        for node in ast.walk(tree):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if (module in ("ascendrt._cffi", "cffi") or {"cffi", "ctypes"} & set(names)) and (
                name not in TOUCHES_FFI
            ):
                problems.append(f"ascendrt/{name}:{node.lineno}")  # type: ignore[attr-defined]
    assert problems == []

"""Runs the tests of the Python side against a built wheel with several interpreters.

    python tests/pythons.py dist/ascendrt-*.whl [PYTHON...]

Owns: an environment and a copy of the tests per interpreter, away from the source tree, so that
nothing but the wheel is imported. Without interpreters, takes those that pyenv has. Ends with 1
when a run failed or no interpreter was found.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
NEEDS = [
    *("pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "onnx", "onnxruntime", "tomli"),
    *("pillow", "scikit-learn", "tqdm"),
]
VERSIONS = ("3.10", "3.11", "3.12", "3.13")
COPIED = (
    *("tests", "examples", "benchmarks", "csrc", "docs", "ascendrt/_gen"),
    *("pyproject.toml", "README.md"),
)
# All but what has to do with the sources and not with the interpreter: `make test` has run that. As
# there, conformance comes first: it counts what a machine has, before other tests take some.
FOLDERS = ("conformance", "pyacl", "python", "serving", "pains", "misuse", "backends")
WITHOUT = ("wheel", "pages", "om_corpus", "benchmarks", "typing", "demo")
TESTS = [
    *(f"tests/{name}" for name in FOLDERS),
    *(f"--ignore=tests/python/test_{name}.py" for name in WITHOUT),
]


def interpreters() -> list[Path]:
    """The newest interpreter of each version that pyenv has."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [sorted(root.glob(f"{version}.*/bin/python")) for version in VERSIONS]
    return [each[-1] for each in found if each]


def run_with(python: Path, wheel: Path, folder: Path) -> bool:
    """Install the wheel and what the tests need, and run them; True when all pass."""
    environment = folder / "env"
    subprocess.run([str(python), "-m", "venv", str(environment)], check=True)
    pip = [str(environment / "bin" / "pip"), "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, str(wheel), *NEEDS], check=True)
    for packages in environment.glob("lib/python3.10/site-packages"):
        (packages / "tomllib.py").write_text("from tomli import *\n")  # came with 3.11
    for name in COPIED:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ASCEND")}
    done = subprocess.run(
        [str(environment / "bin" / "pytest"), "-q", "-n", "2", *TESTS],
        cwd=folder,
        env={**kept, "ASCENDRT_MACHINE": "private"},
        check=False,
    )
    return done.returncode == 0


def main(words: list[str]) -> int:
    """Run all and print a line for each."""
    wheel = Path(words[0]).resolve()
    pythons = [Path(word) for word in words[1:]] or interpreters()
    failed = []
    for python in pythons:
        print(f"== {python}", flush=True)
        with tempfile.TemporaryDirectory(prefix="ascendrt-pythons-") as folder:
            if not run_with(python, wheel, Path(folder)):
                failed.append(python)
    print(f"{len(pythons) - len(failed)} of {len(pythons)} interpreters pass; failed: {failed}")
    return 1 if failed or not pythons else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))

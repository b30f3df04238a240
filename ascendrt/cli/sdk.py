"""`ascendrt sdk DIR`: a folder of the shape that CANN projects look for. Loads no library.

Owns: the shape of that folder. Libraries are copied, so that it works away from this installation;
the names beside `include` and `lib64` are links, because projects spell those two in several ways.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import shutil
from pathlib import Path

from ascendrt._backend import package_bin_dir, package_include_dir, package_lib_dir
from ascendrt.cli.parsing import CommandError, Parser

_STAMP = ".ascendrt-sdk"

_SET_ENV = """\
# Source this file: it makes programs build against, and run on, the ascendrt emulator.
ASCEND_HOME_PATH={root}
if [ -n "${{BASH_SOURCE:-}}" ]; then
    ASCEND_HOME_PATH=$(cd "$(dirname "${{BASH_SOURCE:-}}")" && pwd)
fi
export ASCEND_HOME_PATH
export ASCEND_TOOLKIT_HOME="${{ASCEND_HOME_PATH}}"
export LD_LIBRARY_PATH="${{ASCEND_HOME_PATH}}/lib64${{LD_LIBRARY_PATH:+:${{LD_LIBRARY_PATH}}}}"
export PATH="${{ASCEND_HOME_PATH}}/bin${{PATH:+:${{PATH}}}}"
export ASCENDRT_BACKEND="${{ASCENDRT_BACKEND:-emu}}"
"""

_SETENV_BASH = """\
# Source this file with bash; the same as ../set_env.sh.
. "$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/set_env.sh"
"""


def configure(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("directory", type=Path, metavar="DIR", help="new or earlier sdk folder")
    parser.add_json()
    parser.set_defaults(command=command)


def command(options: argparse.Namespace) -> int:
    """Write the folder and say how to use it."""
    root: Path = options.directory.absolute()
    write(root)
    if options.json:
        print(json.dumps({"directory": str(root), "source": str(root / "set_env.sh")}, indent=1))
        return 0
    print(f"wrote {root}; now: source {shlex.quote(str(root / 'set_env.sh'))}")
    return 0


def write(root: Path) -> None:
    """Write headers, libraries and scripts below `root`; a new folder as a whole or not at all.

    Raises: CommandError when the folder holds something else; OSError.
    """
    if (
        root.exists()
        and not (root / _STAMP).is_file()
        and (not root.is_dir() or any(root.iterdir()))
    ):
        raise CommandError(f"{root} exists and is no ascendrt sdk; name a new folder")
    is_new = not root.exists()
    try:
        _fill(root)
    except OSError as error:
        if is_new:
            shutil.rmtree(root, ignore_errors=True)
        if isinstance(error, shutil.Error):  # a list of (from, to, why)
            raise CommandError(f"{root} cannot be written: {error.args[0][0][2]}") from None
        raise


def _fill(root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    (root / _STAMP).write_text("written by `ascendrt sdk`\n", encoding="utf-8")
    _replace(package_include_dir(), root / "include")
    _replace(package_lib_dir(), root / "lib64")
    (root / "bin").mkdir(exist_ok=True)
    shutil.copy2(package_bin_dir() / "atc", root / "bin" / "atc")
    quoted = shlex.quote(str(root))
    (root / "set_env.sh").write_text(_SET_ENV.format(root=quoted), encoding="utf-8")
    (root / "bin" / "setenv.bash").write_text(_SETENV_BASH, encoding="utf-8")
    for name in ("runtime", "compiler", "acllib", "fwkacllib", f"{platform.machine()}-linux"):
        (root / name).mkdir(exist_ok=True)
        for part in ("include", "lib64"):
            _link(root / name / part, Path("..") / part)
    _link(root / "lib64" / "stub", Path("."))
    _link(root / "devlib", Path("lib64"))


def _replace(source: Path, target: Path) -> None:
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("libascendrt_bind*"))


def _link(path: Path, target: Path) -> None:
    if not path.is_symlink():
        path.symlink_to(target)

"""What the extension module `acl` (the drop-in for the vendor's) asks of Python.

Owns: loading the libraries when `acl` is imported, telling of another `acl` on sys.path, texts for
names that do not exist, and making `import acl` mean ours. Must never touch the object layer.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import sys
import warnings
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from ascendrt import _backend
from ascendrt.errors import BackendError, BackendWarning

# Names that public programs call by mistake, and what they mean.
_MEANT = {
    "acl.mdl.add_dataset_tensor": "acl.mdl.add_dataset_buffer",
    "acl.mdl.destroy_model": "acl.mdl.unload",
    "acl.rt.free_dvpp": "acl.media.dvpp_free",
    "acl.mdl.create_stream": "acl.rt.create_stream",
    "acl.rt.destory_context": "acl.rt.destroy_context",
    "acl.rt.memcopy": "acl.rt.memcpy",
    "acl.rt.get_ptr_addr": "acl.util.ptr_to_bytes (a copy) or acl.util.ptr_to_numpy (a view)",
    "acl.mdl.add_input_buffer": "acl.mdl.add_dataset_buffer",
    "acl.mdl.add_output_buffer": "acl.mdl.add_dataset_buffer",
    "acl.mdl.get_output_shape": "acl.mdl.get_output_dims",
}
_NO_SUCH_MODULE = ("tdt", "graph", "const")


def imported(module: ModuleType) -> None:
    """Load the library set; called while `acl` is being imported.

    Raises: ImportError when no set can be had, as the vendor's module where its libraries lack.
    """
    try:
        _backend.load()
    except BackendError as error:
        raise ImportError(f"acl cannot be imported: {error}", name="acl") from error
    other = another(module.__file__)
    if other:
        warnings.warn(
            f"acl is {module.__file__}; another one lies on sys.path: {other}. The first of them "
            "on sys.path wins; ascendrt.activate(acl=True) chooses ours without a word",
            BackendWarning,
            stacklevel=2,
        )


_chosen = False


def another(own: str | None) -> str | None:
    """Return the file of an `acl` on sys.path that is not `own`."""
    if _chosen or own is None:
        return None
    for entry in sys.path:
        spec = importlib.machinery.PathFinder.find_spec("acl", [entry or "."])
        if spec and spec.origin and not Path(spec.origin).samefile(own):
            return spec.origin
    return None


@cache
def _absent() -> frozenset[str]:
    table = json.loads(Path(__file__).with_name("_gen").joinpath("pyacl.json").read_text("utf-8"))
    return frozenset(f"acl.{name}" for name in table["absent"])


def no_attribute(module: str, name: str) -> NoReturn:
    """Raise AttributeError with what is meant instead, where that is known."""
    dotted = f"{module}.{name}"
    text = f"module {module!r} has no attribute {name!r}"
    if dotted in _MEANT:
        text += f"; {_MEANT[dotted]} is meant"
    elif dotted in _absent():
        text += "; the vendor's module has it, ascendrt does not (see `ascendrt coverage`)"
    elif name.isupper() and not name.startswith("_"):
        text += "; the module has no constants, take them from ascendrt.constants"
    elif module == "acl" and name in _NO_SUCH_MODULE:
        text += "; the C interface of that area has no Python form"
    raise AttributeError(text, name=name, obj=sys.modules.get(module))


def own_file() -> Path:
    """Return the file of our extension module; it lies beside the package's extension."""
    folder = _backend.package_lib_dir().parents[1]
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = folder / f"acl{suffix}"
        if path.is_file():
            return path
    raise BackendError(f"{folder} holds no extension module acl: install ascendrt again")


def activate(*, acl: bool = False) -> None:
    """Load the libraries now; with `acl`, make `import acl` give our module from here on.

    A vendor's `acl` on sys.path and a mock in sys.modules are then passed over. Code that took
    functions from another `acl` before keeps them: call this first.

    Raises: BackendError when no library set can be had.
    """
    global _chosen
    _backend.load()
    if not acl:
        return
    path = own_file()
    present = sys.modules.get("acl")
    _chosen = True
    if present is not None:
        file = getattr(present, "__file__", None)
        if file is not None and Path(file).exists() and path.samefile(file):
            return
        for name in [n for n in sys.modules if n == "acl" or n.startswith("acl.")]:
            del sys.modules[name]
    spec = importlib.util.spec_from_file_location("acl", path)
    if spec is None or spec.loader is None:
        raise BackendError(f"{path} is no extension module")
    module = importlib.util.module_from_spec(spec)
    sys.modules["acl"] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules["acl"]
        raise

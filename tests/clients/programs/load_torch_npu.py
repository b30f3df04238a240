"""Run by the torch_npu environment: load libtorch_npu.so as `import torch_npu` would, and say
which libraries answered. Prints one JSON object; must never import torch_npu itself."""

import ctypes
import importlib.util
import json
import os
from pathlib import Path

import torch  # TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps it from importing torch_npu


def main() -> None:
    spec = importlib.util.find_spec("torch_npu")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("torch_npu is not installed in this environment")
    path = Path(spec.submodule_search_locations[0]) / "lib" / "libtorch_npu.so"
    ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_GLOBAL)
    count = ctypes.c_uint32(99)
    # Looked up in the process, not in a library of our choice: what torch_npu's own calls reach.
    code = ctypes.CDLL(None).aclrtGetDeviceCount(ctypes.byref(count))
    mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    report = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "device_count": [code, count.value],
        "mapped": sorted(name for name in mapped if ".so" in name),
    }
    print(json.dumps(report))


main()

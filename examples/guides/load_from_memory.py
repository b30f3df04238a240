"""A model from bytes, as they come by network or decrypted:
    python examples/guides/load_from_memory.py digits.om

What the usual guide gets wrong:
* `acl.mdl.load_from_mem(data)` raises TypeError: it takes an address and a size.
* The address from `bytes_to_ptr` points into the bytes object. If nothing else holds that, the
  collector frees it while the model is being read.
* It reads the file although a path would do: that costs the file's size in host memory. Loading
  from memory is for bytes that are in no file.
* Sizes can be asked before loading (`query_size_from_mem`), so that memory can be made ready.
"""

from __future__ import annotations

from pathlib import Path

import acl
from acltools import check, label, model_path, picture
from model_executor import ModelExecutor


def main() -> None:
    """Load the same model in both ways and compare, then hand in what is no model."""
    path = model_path()
    check(acl.init(), "acl.init")
    check(acl.rt.set_device(0), "acl.rt.set_device")
    data = Path(path).read_bytes()  # the name keeps the bytes while their address is used
    work, weights, code = acl.mdl.query_size_from_mem(acl.util.bytes_to_ptr(data), len(data))
    check(code, "acl.mdl.query_size_from_mem")
    print(f"needs {work} bytes to work in and {weights} bytes of weights")

    by_path, by_bytes = ModelExecutor(path), ModelExecutor(data)
    del data  # loaded: not needed any more
    (first,), (second,) = by_path.execute(picture(0)), by_bytes.execute(picture(0))
    print(f"says {second.argmax()}, the label is {label(0)}; equal: {(first == second).all()}")
    by_path.close()
    by_bytes.close()

    broken = b"no model at all"
    model_id, code = acl.mdl.load_from_mem(acl.util.bytes_to_ptr(broken), len(broken))
    print(f"what is no model: code {code}, id {model_id}")
    check(acl.rt.reset_device(0), "acl.rt.reset_device")
    check(acl.finalize(), "acl.finalize")


if __name__ == "__main__":
    main()

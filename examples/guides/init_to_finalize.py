"""From init to finalize, each step with its way back:
    python examples/guides/init_to_finalize.py

What the usual guide gets wrong:
* It checks with `assert`, which `python -O` drops, and it ignores the codes of the way back.
* It says `create_context` is needed after `set_device`. set_device gives the thread the device's
  default context already; an explicit one is for work that shall be apart.
* It says that calls before `init` may crash. They answer a code (107002: no context here).
* When a step fails, what the steps before it made stays. Here each step is undone whatever happens.
"""

from __future__ import annotations

from contextlib import ExitStack

import acl
from acltools import check, valued


def main() -> None:
    """Open a device and a context, say what is there, close in the opposite order."""
    with ExitStack() as way_back:
        check(acl.init(), "acl.init")
        way_back.callback(lambda: check(acl.finalize(), "acl.finalize"))

        count = valued(acl.rt.get_device_count(), "acl.rt.get_device_count")
        print(f"{count} device(s), chip {acl.get_soc_name()}")

        check(acl.rt.set_device(0), "acl.rt.set_device")
        way_back.callback(lambda: check(acl.rt.reset_device(0), "acl.rt.reset_device"))

        context = valued(acl.rt.create_context(0), "acl.rt.create_context")
        way_back.callback(lambda: check(acl.rt.destroy_context(context), "acl.rt.destroy_context"))

        current = valued(acl.rt.get_context(), "acl.rt.get_context")
        print(f"the new context is current on this thread: {current == context}")
    print("closed: context, device, runtime")


if __name__ == "__main__":
    main()

"""Which calls have a test that observes their effect: the count may only grow."""

from __future__ import annotations

from aclcalls import BY_NAME, ROWS
from acleffects import declared, unshown

# Calls with an observed effect; raise it with every function that comes to work.
SHOWN_AT_LEAST = 324


def test_every_call_is_shown_or_listed() -> None:
    shown, listed = set(declared()), set(unshown())
    assert shown | listed == set(BY_NAME), sorted(set(BY_NAME) - shown - listed)
    assert shown & listed == set(), "shown, so no longer to be listed in unshown.txt"


def test_the_list_gives_reasons() -> None:
    assert [name for name, reason in unshown().items() if not reason] == []


def test_enough_calls_have_a_real_effect() -> None:
    shown = declared()
    per_module: dict[str, int] = {}
    for name in shown:
        module = name.rpartition(".")[0] or "acl"
        per_module[module] = per_module.get(module, 0) + 1
    print(f"{len(shown)} of {len(ROWS)} calls shown: {per_module}")
    assert len(shown) >= SHOWN_AT_LEAST

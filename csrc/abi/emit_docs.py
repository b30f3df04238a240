"""The page of status codes: from the same table that the library and the package take them from."""

from __future__ import annotations

from c_text import NOTICE
from model import Model

_LAYERS = {
    "acl": "The acl layer: arguments and order of calls",
    "runtime": "The runtime: devices, contexts, streams, tasks",
    "graph engine": "The graph engine: models",
    "aclnn": "Two-phase operators",
}


def emit_error_codes(model: Model) -> str:
    """Return docs/error-codes.md: a table per layer, code to meaning to fix."""
    parts = [
        f"<!-- {NOTICE} -->\n# Status codes\n\nWhat a call answers, what it means, and what to do. "
        "In Python a code other than 0 is an exception with these\nwords "
        "([errors.md](errors.md)); a text of the library itself, with names and ids, stands "
        "before them.\n"
    ]
    rows = [code for code in model.codes_by_value() if code.value != 0]
    for layer in dict.fromkeys(code.layer for code in rows):
        parts.append(f"## {_LAYERS[layer]}\n\n| code | name | meaning | fix |\n|---|---|---|---|")
        parts += [
            f"| {code.value} | `{code.name}` | {_cell(code.meaning)} | {_cell(code.hint)} |"
            for code in rows
            if code.layer == layer
        ]
        parts.append("")
    return "\n".join(parts)


def _cell(text: str) -> str:
    """A name with stars or bars in it must not become markup."""
    for mark in "|*<":
        text = text.replace(mark, "\\" + mark)
    return text

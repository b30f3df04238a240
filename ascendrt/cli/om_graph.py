"""`ascendrt om info --graph`: the graph of a model as an SVG picture.

Owns: the layout, in layers from top to bottom. An edge that passes layers has a place of its own in
each of them, so it does not cross boxes. Constants are written into the box that reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from xml.sax import saxutils

from ascendrt.cli.parsing import printable

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 200, 46, 16, 34, 20
_PASS_WIDTH = 12  # of the place of an edge that passes a layer
_COLOURS = {"Data": "#cfe8cf", "NetOutput": "#f3d9c0"}
_CONSTANTS = ("Const", "Constant")
_Key = tuple[str, ...]  # (op,) or (source, target, layer) for an edge that passes


def draw(graph: dict[str, Any]) -> str:
    """Return the picture of one graph of a described model."""
    ops = {op["name"]: op for op in graph["ops"]}
    shown = [op for op in graph["ops"] if op["type"] not in _CONSTANTS]
    edges = [(source, op["name"]) for op in shown for source in _sources(op, ops)]
    layer_of = _layers([op["name"] for op in shown], edges)
    rows, paths = _rows(layer_of, edges)
    _order(rows, paths)
    place, width = _places(rows)
    height = 2 * _MARGIN + len(rows) * (_HEIGHT + _GAP_Y) - _GAP_Y
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{max(height, 1)}" '
        'font-family="sans-serif" font-size="11">',
        f"<title>{escape(graph['name'])}</title>",
        '<g fill="none" stroke="#777">',
        *(_curve([place[key] for key in path]) for path in paths),
        "</g>",
    ]
    for op in shown:
        parts += _box(op, ops, place[(op["name"],)])
    return "\n".join([*parts, "</svg>\n"])


def _sources(op: dict[str, Any], ops: dict[str, Any]) -> Iterator[str]:
    """Name the drawn ops that an op reads, each once."""
    names = dict.fromkeys(word.rpartition(":")[0] for word in op["inputs"] if word)
    return (name for name in names if name in ops and ops[name]["type"] not in _CONSTANTS)


def _layers(names: list[str], edges: list[tuple[str, str]]) -> dict[str, int]:
    """Number the layers: an op is below everything it reads."""
    followers: dict[str, list[str]] = {name: [] for name in names}
    open_inputs = dict.fromkeys(names, 0)
    for source, target in edges:
        followers[source].append(target)
        open_inputs[target] += 1
    layer = dict.fromkeys(names, 0)
    ready = [name for name in names if open_inputs[name] == 0]
    for name in ready:  # grows while it is walked; ops of a cycle keep layer 0
        for target in followers[name]:
            layer[target] = max(layer[target], layer[name] + 1)
            open_inputs[target] -= 1
            if open_inputs[target] == 0:
                ready.append(target)
    return layer


def _rows(
    layer_of: dict[str, int], edges: list[tuple[str, str]]
) -> tuple[list[list[_Key]], list[list[_Key]]]:
    """Return what stands in each layer, and each edge as the places it goes through."""
    rows: list[list[_Key]] = [[] for _ in range(max(layer_of.values(), default=-1) + 1)]
    for name, layer in layer_of.items():
        rows[layer].append((name,))
    paths = []
    for source, target in edges:
        path: list[_Key] = [(source,)]
        for layer in range(layer_of[source] + 1, layer_of[target]):
            path.append((source, target, str(layer)))
            rows[layer].append(path[-1])
        paths.append([*path, (target,)])
    return rows, paths


def _order(rows: list[list[_Key]], paths: list[list[_Key]]) -> None:
    """Put everything below the middle of what it comes from."""
    above: dict[_Key, list[_Key]] = {}
    for path in paths:
        for upper, lower in pairwise(path):
            above.setdefault(lower, []).append(upper)
    at: dict[_Key, float] = {}
    for row in rows:
        if row is not rows[0]:
            middles = {
                key: sum(at.get(a, 0.0) for a in above.get(key, [])) / len(above.get(key, [0]))
                for key in row
            }
            row.sort(key=middles.__getitem__)
        at.update({key: (i + 0.5) / len(row) for i, key in enumerate(row)})


def _places(rows: list[list[_Key]]) -> tuple[dict[_Key, tuple[float, float]], int]:
    """Return the upper middle of everything, and the width of the picture."""
    widths = [[_PASS_WIDTH if len(key) > 1 else _WIDTH for key in row] for row in rows]
    totals = [sum(row) + _GAP_X * max(len(row) - 1, 0) for row in widths]
    width = max(totals, default=0) + 2 * _MARGIN
    place = {}
    for i, row in enumerate(rows):
        x = (width - totals[i]) / 2
        for key, own in zip(row, widths[i], strict=True):
            place[key] = (x + own / 2, float(_MARGIN + i * (_HEIGHT + _GAP_Y)))
            x += own + _GAP_X
    return place, width


def _curve(points: list[tuple[float, float]]) -> str:
    """Draw an edge from the bottom of its first box through its places to the top of the last."""
    x, y = points[0][0], points[0][1] + _HEIGHT
    words = [f"M{x:.0f} {y:.0f}"]
    for next_x, next_y in points[1:]:
        half = (y + next_y) / 2
        words.append(f"C{x:.0f} {half:.0f} {next_x:.0f} {half:.0f} {next_x:.0f} {next_y:.0f}")
        x, y = next_x, next_y + _HEIGHT
        words.append(f"V{y:.0f}")
    return f'<path d="{" ".join(words[:-1])}"/>'


def _box(op: dict[str, Any], ops: dict[str, Any], place: tuple[float, float]) -> list[str]:
    x, y = place[0] - _WIDTH / 2, place[1]
    constants = [
        _shape(ops[name]["outputs"][:1])
        for name in (word.rpartition(":")[0] for word in op["inputs"] if word)
        if name in ops and ops[name]["type"] in _CONSTANTS
    ]
    shapes = _shape(op["outputs"]) + (f"  ({', '.join(constants)})" if constants else "")
    colour = _COLOURS.get(op["type"], "#d9e4f5")
    middle = f'x="{place[0]:.0f}" text-anchor="middle"'
    return [
        f"<g><title>{escape(op['name'])}</title>"
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{_WIDTH}" height="{_HEIGHT}" rx="4" '
        f'fill="{colour}" stroke="#555"/>',
        f'<text {middle} y="{y + 14:.0f}" font-weight="bold">{escape(_cut(op["type"]))}</text>',
        f'<text {middle} y="{y + 27:.0f}">{escape(_cut(op["name"]))}</text>',
        f'<text {middle} y="{y + 40:.0f}">{escape(_cut(shapes))}</text></g>',
    ]


def escape(text: str) -> str:
    """XML has no form for control characters."""
    return saxutils.escape(printable(text))


def _shape(outputs: list[dict[str, Any]]) -> str:
    return " ".join("x".join(map(str, output["shape"])) or "scalar" for output in outputs)


def _cut(text: str) -> str:
    return text if len(text) <= 34 else f"{text[:12]}…{text[-21:]}"

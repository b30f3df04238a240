"""From a picture to its text: finds lines, turns them, reads them. Three networks do the work.

Owns: everything around the networks. Must never know what runs them: a network is a function from
array to array.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

Array = npt.NDArray[np.float32]
Network = Callable[[Array], Array]

ANGLE_HEIGHT, ANGLE_WIDTH = 48, 192
LINE_HEIGHT = 48
LINE_WIDTHS = (160, 320, 480, 640)  # recognition takes lines of these widths, padded on the right
BATCHES = (1, 2, 4)  # lines whose angle is judged at once
_TEXT, _SURE, _TURNED = 0.3, 0.5, 0.9  # a pixel is text, a box is text, a line is upside down
_GROW = 1.6  # boxes of the network are shrunk; by how much is part of its training


@dataclass(frozen=True)
class Box:
    """A part of a picture in pixels; right and bottom are outside."""

    left: int
    top: int
    right: int
    bottom: int


@dataclass(frozen=True)
class Networks:
    """Find text, judge whether it is upside down, read a line."""

    detect: Network
    angle: Network
    recognize: Network
    characters: list[str]  # by class; class 0 is "nothing"


def read(picture: Image.Image, networks: Networks) -> list[str]:
    """Return the lines of a picture from top to bottom."""
    found = networks.detect(_scaled(picture)[None])[0, 0]
    lines = [_at_height(picture.crop((b.left, b.top, b.right, b.bottom))) for b in boxes(found)]
    upright = [
        line.rotate(180) if turned else line
        for line, turned in zip(lines, _turned(lines, networks.angle), strict=True)
    ]
    return [_text(networks.recognize(_padded(line)), networks.characters) for line in upright]


def _scaled(picture: Image.Image) -> Array:
    """Channels first, from -1 to 1."""
    pixels = np.asarray(picture, np.float32).transpose(2, 0, 1) / np.float32(255)
    return np.ascontiguousarray((pixels - np.float32(0.5)) / np.float32(0.5))


def boxes(found: Array) -> list[Box]:
    """Return where text is, from a map of how likely each pixel is text."""
    height, width = found.shape
    open_pixels = {(int(y), int(x)) for y, x in np.argwhere(found > _TEXT)}
    result = []
    while open_pixels:
        part = _connected(open_pixels)
        ys, xs = [y for y, _ in part], [x for _, x in part]
        box = Box(min(xs), min(ys), max(xs) + 1, max(ys) + 1)
        wide, high = box.right - box.left, box.bottom - box.top
        sure = float(found[box.top : box.bottom, box.left : box.right].mean())
        if min(wide, high) < 3 or sure < _SURE:
            continue
        grow = round(wide * high * _GROW / (2 * (wide + high)))
        result.append(
            Box(
                max(box.left - grow, 0),
                max(box.top - grow, 0),
                min(box.right + grow, width),
                min(box.bottom + grow, height),
            )
        )
    return sorted(result, key=lambda box: (box.top, box.left))


def _connected(pixels: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """Take one connected part out of a set of pixels."""
    part = [pixels.pop()]
    for y, x in part:  # grows while it is walked
        for near in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
            if near in pixels:
                pixels.remove(near)
                part.append(near)
    return part


def _at_height(line: Image.Image) -> Image.Image:
    width = max(1, round(line.width * LINE_HEIGHT / line.height))
    return line.resize((min(width, LINE_WIDTHS[-1]), LINE_HEIGHT), Image.Resampling.BILINEAR)


def _turned(lines: list[Image.Image], angle: Network) -> list[bool]:
    """Judge which lines are upside down, as many at once as the network takes."""
    verdicts: list[bool] = []
    while len(verdicts) < len(lines):
        left = lines[len(verdicts) :]
        batch = max(size for size in BATCHES if size <= len(left))
        squeezed = [
            _scaled(line.resize((min(line.width, ANGLE_WIDTH), ANGLE_HEIGHT)))
            for line in left[:batch]
        ]
        scores = angle(np.stack([_widened(pixels, ANGLE_WIDTH) for pixels in squeezed]))
        verdicts += [bool(score[1] > _TURNED) for score in scores]
    return verdicts


def _padded(line: Image.Image) -> Array:
    width = next(width for width in LINE_WIDTHS if line.width <= width)
    return _widened(_scaled(line), width)[None]


def _widened(pixels: Array, width: int) -> Array:
    """Add grey on the right."""
    room = ((0, 0), (0, 0), (0, width - pixels.shape[2]))
    return np.ascontiguousarray(np.pad(pixels, room))


def _text(scores: Array, characters: list[str]) -> str:
    """Take the best class at every place; repeats count once, class 0 separates."""
    best = scores[0].argmax(axis=1)
    kept = [int(c) for i, c in enumerate(best) if c != 0 and (i == 0 or c != best[i - 1])]
    return "".join(characters[c] for c in kept).strip()

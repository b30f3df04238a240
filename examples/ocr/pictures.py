"""Rendered pictures with lines of text, some of them upside down.

Owns: what is on the pictures. Must never know how they are read.
"""

from __future__ import annotations

from dataclasses import dataclass

from PIL import Image, ImageDraw, ImageFont


@dataclass(frozen=True)
class Line:
    """A line of text: where its upper left corner lies, its size, whether it is upside down."""

    text: str
    left: int
    top: int
    size: int
    turned: bool = False


@dataclass(frozen=True)
class Page:
    """A picture by what is on it."""

    height: int
    width: int
    lines: tuple[Line, ...]


PAGES = (
    Page(
        320,
        480,
        (
            Line("Offline models", 30, 24, 40),
            Line("read what is written", 30, 100, 32),
            Line("UPSIDE DOWN", 60, 170, 36, turned=True),
            Line("Total: 1024.50", 200, 250, 28),
        ),
    ),
    Page(160, 640, (Line("A wide picture has room for long lines", 20, 30, 30),
                    Line("INVOICE 2024-117", 320, 96, 34, turned=True))),
)  # fmt: skip


def render(page: Page) -> Image.Image:
    """Dark text on a light ground."""
    picture = Image.new("RGB", (page.width, page.height), (245, 243, 238))
    for line in page.lines:
        font = ImageFont.load_default(size=line.size)
        box = font.getbbox(line.text)
        word = Image.new("RGB", (int(box[2]) + 8, int(box[3]) + 8), (245, 243, 238))
        ImageDraw.Draw(word).text((4, 4), line.text, fill=(25, 30, 60), font=font)
        picture.paste(word.rotate(180) if line.turned else word, (line.left, line.top))
    return picture

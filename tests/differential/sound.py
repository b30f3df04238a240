"""Speech-like sound: voiced syllables of vowels with falling pitch, hiss behind them, pauses.

Owns: the generator. Must never read a file: the seed decides everything.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# Formants of five vowels in Hz, with the same widths and strengths for all.
VOWELS = [
    (730, 1090, 2440),
    (270, 2290, 3010),
    (530, 1840, 2480),
    (570, 840, 2410),
    (300, 870, 2240),
]
WIDTHS = (60.0, 90.0, 150.0)
STRENGTHS = (1.0, 0.6, 0.3)


def speech(rate: int, seconds: float, seed: int) -> Array:
    """Mono sound, float32 with a peak of 0.6."""
    rng = np.random.default_rng(seed)
    sound = rng.standard_normal(int(rate * seconds)) * 0.002
    at = 0.3
    while at < seconds - 1:
        for _ in range(int(rng.integers(2, 6))):
            length = rng.uniform(0.12, 0.28)
            _add(sound, int(at * rate), _syllable(rng, rate, length))
            hiss = rng.standard_normal(int(0.04 * rate)) * 0.03
            _add(sound, int((at + length) * rate), hiss)
            at += length + 0.05
        at += rng.uniform(0.3, 0.9)
    return (sound / np.abs(sound).max() * 0.6).astype(np.float32)


def _add(sound: Array, start: int, part: Array) -> None:
    end = min(len(sound), start + len(part))
    sound[start:end] += part[: end - start]


def _syllable(rng: np.random.Generator, rate: int, length: float) -> Array:
    pitch = rng.uniform(95, 170)
    formants = VOWELS[int(rng.integers(0, len(VOWELS)))]
    time = np.arange(int(length * rate)) / rate
    phase = 2 * np.pi * np.cumsum(pitch * (1 - 0.25 * time / length)) / rate
    voice = np.zeros_like(time)
    for k in range(1, int(min(3600, rate / 2 - 200) / pitch)):
        near = [1 + ((k * pitch - f) / w) ** 2 for f, w in zip(formants, WIDTHS, strict=True)]
        voice += sum(s / n for s, n in zip(STRENGTHS, near, strict=True)) * np.sin(k * phase)
    return voice * np.sqrt(np.sin(np.pi * time / length)) * 0.25

"""Pictures of a recorded run: power in all and by GPU, tok/s, limit and target, and the marks, as SVG or PNG."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from console.errors import ConsoleError, UsageError
from console.operations.overview import Overview, overview
from console.operations.tape import GAP_S, Tape

WIDE, LEFT, RIGHT = 1080, 84, 1040
PARTS = 1200
PANEL, SPACE, TOP = 170, 34, 100
HIGH = TOP + 3 * (PANEL + SPACE) + 26

INKS = {"power": "#c2410c", "speed": "#1d4ed8", "limit": "#b91c1c", "target": "#0f766e", "mark": "#6b21a8"}
GPU_INKS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c8c00", "#000000")
GREY, LINE = "#6b7280", "#e5e7eb"

EXTRA = "pip install 'tokwatt[plots]' brings it; SVG needs nothing"


def write(tape: Tape, file: str) -> Path:
    """Write a picture; the name's end says which kind.

    Raises:
        UsageError: The name ends otherwise, or the file cannot be written.
        ConsoleError: PNG, without the library that draws it.
    """
    path = Path(file).expanduser()
    if path.suffix.lower() not in (".svg", ".png"):
        raise UsageError(f"{file}: a picture is .svg or .png")
    data = svg(tape).encode() if path.suffix.lower() == ".svg" else png(tape)
    try:
        path.write_bytes(data)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written", error.strerror or str(error)) from error
    return path


def png(tape: Tape) -> bytes:
    """Return a picture as PNG, twice as large as the SVG.

    Raises:
        ConsoleError: The library that draws it is not there.
    """
    try:
        import cairosvg
    except (ImportError, OSError) as error:  # OSError: the package is there and cairo itself is not
        raise ConsoleError("PNG needs cairosvg and the cairo library", str(error).splitlines()[0], EXTRA) from error
    drawn: bytes = cairosvg.svg2png(bytestring=svg(tape).encode(), scale=2)
    return drawn


def svg(tape: Tape) -> str:
    """Return a picture as SVG."""
    whole = overview(tape, PARTS)
    entry = tape.entry
    badge = f" [{entry.badge}]" if entry.badge else ""
    patches = ", ".join(map(str, entry.identity.get("patches_on") or ()))
    began = time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(tape.began))
    limit, target = whole.limit_w, tape.target_tok_s
    panels = [
        Panel(whole, 0, "W, all GPUs", ["power_w"], [INKS["power"]], limit, "limit", INKS["limit"], band=True),
        Panel(whole, 1, "W, each GPU", whole.gpus, GPU_INKS, _one_limit(whole), "limit of one", INKS["limit"]),
        Panel(
            whole, 2, "output tok/s", ["tok_s"], [INKS["speed"]], target, _target_word(tape), INKS["target"], band=True
        ),
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDE}" height="{HIGH}" viewBox="0 0 {WIDE} {HIGH}"'
            ' font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="11">',
            f'<rect width="{WIDE}" height="{HIGH}" fill="white"/>',
            _text(LEFT, 22, f"run {entry.id} on {entry.host}{badge} · {entry.profile}", "#111827", size=15),
            _text(LEFT, 38, f"from {began}" + (f" · patches on: {patches}" if patches else ""), GREY),
            *_measurements(tape, whole),
            *_gaps(tape, whole),
            *(line for panel in panels for line in panel.drawn()),
            *_marks(tape, whole),
            *_axis(whole),
            "</svg>\n",
        ]
    )


class Panel:
    """One of the plots, above each other on one time axis."""

    def __init__(
        self, whole: Overview, place: int, title: str, names: Sequence[str], inks: Sequence[str],
        line: float | None, word: str, line_ink: str, *, band: bool = False,
    ) -> None:  # fmt: skip
        self.whole, self.title, self.names, self.inks = whole, title, names, inks
        self.line, self.word, self.line_ink, self.band = line, word, line_ink, band
        self.top = TOP + place * (PANEL + SPACE)
        reached = [most for name in names if (most := whole.most(name)) is not None]
        self.known = bool(reached)
        self.most = nice(max([*reached, line or 0.0, 1.0]))

    def y(self, value: float) -> float:
        """Return how far down a value lies."""
        return self.top + PANEL * (1 - min(1.0, value / self.most))

    def drawn(self) -> Iterator[str]:
        """Yield frame, grid, curves and the line to look at."""
        for part in range(5):
            value = self.most * part / 4
            y = self.y(value)
            yield f'<line x1="{LEFT}" x2="{RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{LINE}"/>'
            yield _text(LEFT - 6, y + 4, f"{value:,.0f}", GREY, end=True)
        yield _text(LEFT, self.top - 6, self.title, "#111827", bold=True)
        if not self.known:
            yield _text(LEFT + 12, self.top + PANEL / 2, "nothing was recorded", GREY)
        if self.band:
            yield from self._band()
        for place, name in enumerate(self.names):
            yield from self._curve(name, self.inks[place % len(self.inks)])
        if len(self.names) > 1:
            yield from self._legend()
        if self.line:
            y = self.y(self.line)
            yield (f'<line x1="{LEFT}" x2="{RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{self.line_ink}"'
                   ' stroke-dasharray="6 4"/>')  # fmt: skip
            yield _text(RIGHT, self.top - 6, f"{self.word} {self.line:,.0f}", self.line_ink, end=True)

    def _curve(self, name: str, ink: str) -> Iterator[str]:
        for piece in _pieces(self.whole, name):
            points = [(x_of(self.whole, moment), self.y(mean)) for moment, mean, _, _ in piece]
            if len(points) == 1:
                yield f'<circle cx="{points[0][0]:.1f}" cy="{points[0][1]:.1f}" r="1.5" fill="{ink}"/>'
            else:
                told = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
                yield f'<polyline fill="none" stroke="{ink}" stroke-width="1.4" points="{told}"/>'

    def _band(self) -> Iterator[str]:
        """Yield least and most of each part of the time, where they differ."""
        for piece in _pieces(self.whole, self.names[0]):
            over = [(x_of(self.whole, moment), self.y(high)) for moment, _, _, high in piece]
            under = [(x_of(self.whole, moment), self.y(low)) for moment, _, low, _ in reversed(piece)]
            told = " ".join(f"{x:.1f},{y:.1f}" for x, y in [*over, *under])
            yield f'<polygon fill="{self.inks[0]}" fill-opacity="0.18" points="{told}"/>'

    def _legend(self) -> Iterator[str]:
        for place, name in enumerate(self.names[:16]):
            x = LEFT + 110 + place * 44
            ink = self.inks[place % len(self.inks)]
            yield f'<rect x="{x}" y="{self.top - 14}" width="10" height="8" fill="{ink}"/>'
            yield _text(x + 14, self.top - 6, name.partition(".")[2], GREY)


Told = tuple[float, float, float, float]


def _pieces(whole: Overview, name: str) -> Iterator[list[Told]]:
    """Yield a curve in pieces that no gap cuts: moment, mean, least and most of each part."""
    piece: list[Told] = []
    for place, part in enumerate(whole.columns.get(name, ())):
        if part is None or part.mean is None:
            continue
        moment = whole.began + (place + 0.5) * whole.step_s
        if piece and moment - piece[-1][0] > max(GAP_S, 3 * whole.step_s):
            yield piece
            piece = []
        piece.append((moment, part.mean, part.low, part.high))
    if piece:
        yield piece


def x_of(whole: Overview, moment: float) -> float:
    """Return how far right a moment lies."""
    share = (moment - whole.began) / (whole.ended - whole.began)
    return LEFT + (RIGHT - LEFT) * min(1.0, max(0.0, share))


def nice(most: float) -> float:
    """Return a round number, not below `most`, whose quarters are round too."""
    size = 10.0 ** math.floor(math.log10(most))
    return next(size * part for part in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 5, 6, 8, 10) if size * part >= most)


def _one_limit(whole: Overview) -> float | None:
    limits = [whole.most(name) for name in whole.columns if name.startswith("limit_w.")]
    return max((limit for limit in limits if limit is not None), default=None)


def _target_word(tape: Tape) -> str:
    origin = tape.target_from
    return f"target, {origin} (other model)" if origin else "target"


def _bottom() -> float:
    return TOP + 3 * (PANEL + SPACE) - SPACE


def _measurements(tape: Tape, whole: Overview) -> Iterator[str]:
    """Yield each measurement as a bar above the plots and a shade over them, with its concurrency."""
    last = -100.0
    for one in tape.windows:
        left, right = x_of(whole, one.began), x_of(whole, one.ended)
        wide = max(1.0, right - left)
        yield (f'<rect x="{left:.1f}" y="{TOP}" width="{wide:.1f}" height="{_bottom() - TOP}" fill="{INKS["mark"]}"'
               ' fill-opacity="0.05"/>')  # fmt: skip
        yield f'<rect x="{left:.1f}" y="52" width="{wide:.1f}" height="4" fill="{INKS["mark"]}"/>'
        if left - last > 22:
            last = left
            yield _text(left, 49, str(one.concurrency), INKS["mark"])


def _gaps(tape: Tape, whole: Overview) -> Iterator[str]:
    for began, ended in tape.gaps:
        left, right = x_of(whole, began), x_of(whole, ended)
        yield (f'<rect x="{left:.1f}" y="{TOP}" width="{right - left:.1f}" height="{_bottom() - TOP}"'
               ' fill="#f3f4f6"/>')  # fmt: skip
        if right - left > 80:
            yield _text((left + right) / 2 - 40, TOP + PANEL / 2, "nobody watched", GREY)


def _marks(tape: Tape, whole: Overview) -> Iterator[str]:
    """Yield ◆ for a patch and ▲ for a launch as shapes, since no font is sure to have them."""
    last = -100.0
    for mark in tape.marks:
        if mark.kind not in ("patch", "restart") or not whole.began - 120 <= mark.time <= whole.ended:
            continue
        x = x_of(whole, mark.time)
        shape = f"{x:.1f},48 {x + 5:.1f},54 {x:.1f},60 {x - 5:.1f},54"
        if mark.kind == "restart":
            shape = f"{x:.1f},49 {x + 6:.1f},60 {x - 6:.1f},60"
        yield (f'<line x1="{x:.1f}" x2="{x:.1f}" y1="60" y2="{_bottom()}" stroke="{INKS["mark"]}"'
               ' stroke-dasharray="2 3"/>')  # fmt: skip
        word = "launch" if mark.kind == "restart" else mark.kind
        yield f'<polygon points="{shape}" fill="{INKS["mark"]}"><title>{_plain(f"{word} {mark.text}")}</title></polygon>'
        if x - last > 60:
            last = x
            yield _text(x + 4, 74, mark.text[:40] if mark.kind == "patch" else word, INKS["mark"])


def _axis(whole: Overview) -> Iterator[str]:
    lasted = whole.ended - whole.began
    shown = "%H:%M" if lasted > 1200 else "%H:%M:%S"
    for part in range(9):
        moment = whole.began + lasted * part / 8
        x = x_of(whole, moment)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_bottom()}" y2="{_bottom() + 4}" stroke="{GREY}"/>'
        yield _text(x - 22, _bottom() + 17, time.strftime(shown, time.localtime(moment)), GREY)
    yield _text(LEFT, _bottom() + 36, f"{lasted:,.0f} s", GREY)


def _text(x: float, y: float, text: str, ink: str, *, size: int = 11, end: bool = False, bold: bool = False) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{ink}" font-size="{size}"'
        + (' text-anchor="end"' if end else "")
        + (' font-weight="bold"' if bold else "")
        + f">{_plain(text)}</text>"
    )


def _plain(text: str) -> str:
    """Return text as XML may hold it: control characters make a whole picture unreadable."""
    return escape("".join(sign for sign in text if sign.isprintable()))

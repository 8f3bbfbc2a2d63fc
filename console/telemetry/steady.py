"""Steady speeds: means over seconds, since one poll of a counter that moves in steps says little."""

from __future__ import annotations

from collections import deque

SHOWN_S = 3.0
"""The number on screen is the mean of this much."""

BEST_S = 5.0
"""The best is the best mean of at least this much without a pause."""


class Steady:
    """Means over the speeds of one busy stretch; a pause begins a new one.

    A decode step adds a token for every running request at once, so between two polls the counter moves three
    steps or four: single readings swing by a third, and the first ones after a prefill by more.
    """

    def __init__(self) -> None:
        self._points: deque[tuple[float, float, float]] = deque()
        """Time, seconds that the speed stood for, tok/s."""
        self._counted: deque[tuple[float, float]] = deque()
        """Time and output counter, at the readings where the counter had moved."""
        self.best: float | None = None

    def step(self, time: float, tok_s: float | None, tokens: float | None = None) -> float | None:
        """Take a speed, `None` for a pause, and the output counter where there is one; return the mean to show."""
        if tok_s is None:
            self._points.clear()
            self._counted.clear()
            return None
        lasted_s = max(0.05, min(SHOWN_S, time - self._points[-1][0])) if self._points else 1.0
        self._points.append((time, lasted_s, tok_s))
        while len(self._points) > 1 and sum(each[1] for each in self._points) - self._points[0][1] >= BEST_S:
            self._points.popleft()
        whole = self._mean(BEST_S) if tokens is None else self._counter_mean(time, tokens)
        if whole is not None:
            self.best = max(self.best or 0.0, whole)
        return self._mean(SHOWN_S, least=False)

    def _counter_mean(self, time: float, tokens: float) -> float | None:
        """Return the tokens of at least `BEST_S` by their own time: a speed held while a counter stands counts none twice."""
        if self._counted and tokens < self._counted[-1][1]:
            self._counted.clear()  # the server was started anew
        if self._counted and tokens == self._counted[-1][1]:
            return None
        self._counted.append((time, tokens))
        while len(self._counted) > 1 and time - self._counted[1][0] >= BEST_S - 0.05:
            self._counted.popleft()
        began, before = self._counted[0]
        return (tokens - before) / (time - began) if time - began >= BEST_S - 0.05 else None

    def _mean(self, span_s: float, *, least: bool = True) -> float | None:
        """Return the mean of the newest `span_s`; with `least`, `None` when there is less."""
        lasted = tokens = 0.0
        for _, each_s, tok_s in reversed(self._points):
            lasted += each_s
            tokens += each_s * tok_s
            if lasted >= span_s - 0.05:
                break
        return tokens / lasted if lasted >= span_s - 0.05 or (lasted and not least) else None

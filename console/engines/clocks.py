"""The times of a log: what its stamps lack, and how far apart two of them are."""

from __future__ import annotations

import contextlib
import functools
from datetime import datetime, timedelta, timezone

_HALF_YEAR_S = 183 * 86400.0
_YEAR = "2024-"
_DAY = "2024-01-01 "


class Zone:
    """What the stamps of one log lack: the offset of their zone, and the year.

    Args:
        utc_offset_s: Offset of the log's local times; without it they give no moment.
        since: A moment near which the log begins, in seconds since the epoch: it gives the year to stamps without
            one; each further stamp is the one nearest to the one before, so that new year is no step back.
    """

    def __init__(self, utc_offset_s: int | None = None, since: float | None = None) -> None:
        self._zone = timezone(timedelta(seconds=utc_offset_s)) if utc_offset_s is not None else None
        self._near = datetime.fromtimestamp(since, self._zone) if self._zone is not None and since else None
        self._last: tuple[str, str, str | None] = ("", "", None)
        self.collectors: set[str] = set()
        """Who was seen to write its name in front of stamped lines: then it does in front of every line."""

    def moment(self, date: str, clock: str) -> str | None:
        """Return a stamp as ISO 8601 with zone, `None` when it has none.

        Args:
            date: `YYYY-MM-DD`, or `MM-DD`.
            clock: Time of day, fractions of a second included.
        """
        if self._zone is None:
            return None
        if (date, clock) != self._last[:2]:
            self._last = date, clock, self._iso(date, clock)
        return self._last[2]

    def _iso(self, date: str, clock: str) -> str | None:
        try:
            if len(date) == 10:
                return datetime.fromisoformat(f"{date} {clock[:15]}").replace(tzinfo=self._zone).isoformat()
            return self._yearless(date, clock)
        except ValueError:
            return None

    def _yearless(self, date: str, clock: str) -> str | None:
        if self._near is None:
            return None
        found = []
        for year in (self._near.year - 1, self._near.year, self._near.year + 1):
            with contextlib.suppress(ValueError):  # the 29th of February
                found.append(datetime.fromisoformat(f"{year}-{date} {clock[:15]}").replace(tzinfo=self._zone))
        if not found:
            return None
        near = self._near
        self._near = min(found, key=lambda moment: abs(moment - near))
        return self._near.isoformat()


def seconds_between(before: str, now: str) -> float | None:
    """Return the seconds from one stamp of a log to a later one, `None` when they cannot be compared.

    Stamps may lack the year or the date: then new year and midnight are steps forward.
    """
    if before == now:
        return 0.0 if now else None
    first, lead = _moment(before)
    last, other = _moment(now)
    if first is None or last is None or lead != other:
        return None
    gone_s = (last - first).total_seconds()
    if lead == _YEAR and gone_s < -_HALF_YEAR_S:
        return gone_s + 366 * 86400  # from the last days of a year to the first of the next
    if lead == _DAY and gone_s < -43200:
        return gone_s + 86400
    return gone_s


@functools.lru_cache(maxsize=4096)
def _moment(clock: str) -> tuple[datetime | None, str]:
    """Return a stamp as a moment of a leap year, and what it lacks."""
    lead = {19: "", 14: _YEAR, 8: _DAY}.get(len(clock.partition(".")[0]), "?")
    try:
        return datetime.fromisoformat((lead + clock)[:26]), lead
    except ValueError:
        return None, lead

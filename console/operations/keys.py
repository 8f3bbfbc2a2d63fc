"""The key that a server wants of those who ask it, by the profile that it was launched from."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from console.domain.profile import Profile, Secret
from console.domain.run import Run
from console.engines.registry import engine
from console.operations.desk import Desk

if TYPE_CHECKING:
    import httpx

Auth = Callable[["httpx.Request"], "httpx.Request"]


def auth_of(desk: Desk, run: Run | None) -> Auth | None:
    """Return what gives a run's server its key as a bearer token; `None` where none is known.

    Looked up in the console's environment each time and kept nowhere. It goes to a server of ours alone, one that was
    launched from the desk's profile: whoever else is at its port is told no secret. A key that only the host knows
    (`from = "host-env"`) stays there.
    """
    if run is None or (key := _key(desk, run)) is None:
        return None
    adapter = engine(run.engine)
    admin = {adapter.flush_path, adapter.abort[0]}
    admin_key = _key(desk, run, adapter.admin_key_places) or key

    def sign(request: httpx.Request) -> httpx.Request:
        request.headers["Authorization"] = f"Bearer {admin_key if request.url.path in admin else key}"
        return request

    return sign


def headers_of(desk: Desk, run: Run) -> dict[str, str]:
    """Return the same for the load program, which is sent them on standard input."""
    key = _key(desk, run)
    return {"Authorization": f"Bearer {key}"} if key is not None else {}


def _key(desk: Desk, run: Run, places: Sequence[str] = ()) -> str | None:
    profile = desk.profile
    if profile is None or not run.launched or run.profile != profile.name:
        return None
    found = (_value(profile, place) for place in places or engine(run.engine).key_places)
    return next(filter(None, found), None)


def _value(profile: Profile, place: str) -> str | None:
    """Return what a flag or variable of a profile has for a value, as far as this console can know."""
    launch = profile.launch
    given = launch.secret_args.get(place, launch.env.get(place))
    if isinstance(given, Secret):
        return os.environ.get(given.name or place) if given.source == "env" else None
    return given

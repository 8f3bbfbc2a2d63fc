"""`profile check`: what would keep a launch from being what the profile says, from the file alone and on the host."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from console.config.commands.dialects import dialect
from console.config.commands.json_values import is_json
from console.config.patches import load_patch
from console.config.paths import find_patch
from console.config.secrecy import REDACTED, is_secret
from console.domain.patch import DiskState
from console.domain.profile import SLURM, Profile
from console.domain.run import LIVING, Run
from console.engines import demands
from console.engines.registry import engine
from console.engines.sglang.demands import demands as sglang_demands
from console.engines.vllm.demands import demands as vllm_demands
from console.errors import ConsoleError, FormatError, RemoteError, UsageError
from console.operations import ways
from console.operations.known import known_patches
from console.operations.via_check import remarks

if TYPE_CHECKING:
    from console.operations.desk import Desk
    from console.operations.install_flags import InstallFlags

ERROR, WARNING = "error", "warning"

_DEMANDS = {"sglang": sglang_demands, "vllm": vllm_demands}
_UNEXPANDED = re.compile(r"\$\{[^}]*\}|\$\([^)]*\)|\$[A-Za-z_]\w*|`[^`]*`")
_UNFIT = {
    DiskState.CONFLICT: ERROR,
    DiskState.INVALID: ERROR,
    DiskState.NOT_APPLICABLE: ERROR,
    DiskState.DRIFTED: WARNING,
    DiskState.OFF: WARNING,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a profile that would keep a launch from being what it says."""

    severity: str
    """`error`: it would not start. `warning`: it would start otherwise than written."""
    key: str
    text: str
    hint: str = ""
    line: int = 0
    file: str = ""
    """The layer in which the key stands."""

    @property
    def place(self) -> str:
        """Return `FILE:LINE`, as far as it is known."""
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def told(self) -> str:
        """Return key and text."""
        return ": ".join(filter(None, (self.key, self.text)))


async def check(
    profile: Profile, desk: Desk | None, *, ask: bool = True, looked: Mapping[str, Any] | None = None
) -> tuple[Finding, ...]:
    """Return what is wrong with a profile; with a desk, also against the host's own install and model.

    Args:
        profile: The profile.
        desk: Its host, or `None` for the file alone.
        ask: Whether an install that was not asked for its flags before may be started to tell them.
        looked: What `launching.look` said with the model's folder, where it was asked already.
    """
    model, gpus, install = demands.ModelFacts(), None, None
    found = [*_engine(profile), *_values(profile), *_spellings(profile), *_patches(profile), *_bench(profile)]
    found += [Finding(ERROR if each.fatal else WARNING, each.key, each.text, each.hint) for each in remarks(profile)]
    if desk is not None:
        install = None if ways.in_image(profile) else await _install(desk, profile, ask=ask)
        told, model, gpus = await _on_host(desk, profile, looked)
        found += [*told, *_compared(profile, install, ask=ask)]
    found += _demanded(profile, model, gpus, install.known if install is not None else {})
    return tuple(_once(_placed(profile, each) for each in found))


def _engine(profile: Profile) -> list[Finding]:
    try:
        engine(profile.engine.kind)
    except UsageError as error:
        return [Finding(ERROR, "engine.kind", error.title, error.hint)]
    spelled = dialect(profile.engine.kind)
    named = {spelled.canonical(name) for name, value in profile.launch.args.items() if value is not False}
    if spelled.programs and spelled.model not in named and not named & {"hf-repo", "config"}:
        return [Finding(ERROR, "launch.args", "no model is named", f'write {spelled.model} = "/models/…"')]
    return []


def _values(profile: Profile) -> list[Finding]:
    found = []
    launch = profile.launch
    for name, value in launch.env.items():
        found += _written(f"launch.env.{name}", name, value, f'write {name} = {{ from = "env" }}')
    for flag, given in launch.args.items():
        found += _written(f"launch.args.{flag}", flag, given, f'write {flag} = {{ from = "env", name = "…" }}')
    for flag in launch.secret_args:
        said = f"{flag} is readable by every login of the host while the server runs: it is an argument"
        found.append(Finding(WARNING, f"launch.args.{flag}", said))
    return found + _unexpanded(profile)


def _written(key: str, name: str, value: object, hint: str) -> list[Finding]:
    """Find that a secret is written down, or was: what a run keeps of its profile has none."""
    if REDACTED in str(value):
        return [Finding(ERROR, key, f"{name} was a secret, taken out when this text was kept", hint)]
    if value and is_secret(name, value):
        return [Finding(WARNING, key, f"{name} looks like a secret written down", hint)]
    return []


def _unexpanded(profile: Profile) -> list[Finding]:
    """Find what a shell would fill in: none reads a profile."""
    launch = profile.launch
    texts: dict[str, object] = {f"launch.args.{name}": value for name, value in launch.args.items()}
    texts |= {f"launch.env.{name}": value for name, value in launch.env.items()}
    texts |= {"launch.workdir": launch.workdir, "engine.python": profile.engine.python}
    found = []
    for key, value in texts.items():
        for text in value if isinstance(value, tuple) else (value,):
            match = _UNEXPANDED.search(text) if isinstance(text, str) else None
            if match is None:
                continue
            literal = isinstance(text, str) and is_json(text)
            said = f"{match[0]} stays as it is: no shell reads a profile"
            found.append(
                Finding(WARNING if literal or key.startswith("launch.env.") else ERROR, key, said, "write its value")
            )
    return found


def _spellings(profile: Profile) -> list[Finding]:
    """Find one flag under two names, and a JSON value both whole and in parts."""
    spelled, found = dialect(profile.engine.kind), []
    seen: dict[str, str] = {}
    for name, value in profile.launch.args.items():
        if value is False:
            continue
        one = spelled.canonical(name)
        if one in seen:
            said = f"{name} and {seen[one]} are one flag: the engine takes the last"
            sure = all(each.replace("_", "-") in (one, *spelled.same) for each in (name, seen[one]))
            way = f"keep one, {seen[one]} = false takes the other away"
            found.append(Finding(ERROR if sure else WARNING, f"launch.args.{name}", said, way))
        seen[one] = name
        head = name.partition(".")[0]
        if head != name and head in profile.launch.args:
            said = f"{name} and {head} set one value in two ways"
            found.append(Finding(WARNING, f"launch.args.{name}", said, f"write {head} = {{ … }}"))
        if isinstance(value, str) and value.startswith("{") and not is_json(value):
            found.append(Finding(ERROR, f"launch.args.{name}", f"{name} is no JSON: {value[:80]}"))
    return found


def _bench(profile: Profile) -> list[Finding]:
    spelled, bench = dialect(profile.engine.kind), profile.bench
    wanted = bench.input_tokens + bench.output_tokens
    for name, value in profile.launch.args.items():
        if (
            spelled.canonical(name) in ("context-length", "max-model-len")
            and isinstance(value, int)
            and 0 < value < wanted
        ):
            said = f"requests of {bench.input_tokens} in and {bench.output_tokens} out are longer than {name} = {value}"
            return [Finding(ERROR, "bench.input_tokens", said)]
    return []


def _patches(profile: Profile) -> list[Finding]:
    found = []
    for name in profile.patches_on:
        try:
            patch = load_patch(find_patch(name))
        except FormatError as error:
            found.append(Finding(ERROR, "patches.on", error.one_line()))
            continue
        except ConsoleError as error:  # no file of that name: one that calls itself so
            named = [each for each in known_patches(None) if each.name == name]
            if not named:
                found.append(Finding(ERROR, "patches.on", error.one_line()))
                continue
            patch = named[0]
        for flag, wanted in patch.requires.args.items():
            given = profile.launch.args.get(flag)
            if given != wanted:
                said = f"{flag} is {given!r}" if given is not None else f"{flag} is not given"
                hint = f'write {flag} = "{wanted}"'
                found.append(Finding(WARNING, "patches.on", f"{name} is never reached: {said}", hint))
        for flag in patch.requires.absent:
            if profile.launch.args.get(flag):
                found.append(Finding(WARNING, "patches.on", f"{name} is never reached: {flag} is given"))
    return found


def _demanded(profile: Profile, model: demands.ModelFacts, gpus: int | None, known: Collection[str]) -> list[Finding]:
    """Ask the engine's assertions of the arguments, abbreviations written whole."""
    ask = _DEMANDS.get(profile.engine.kind)
    if ask is None:
        return []
    whole = {name: _whole(name, known) for name in profile.launch.args}
    given = {full: name for name, full in whole.items()}
    args = {whole[name]: value for name, value in profile.launch.args.items()}
    asked = replace(profile, launch=replace(profile.launch, args=args))
    found = []
    for each in ask(asked, model, gpus):
        flag = given.get(each.flag, each.flag)
        severity = ERROR if each.fatal else WARNING
        found.append(Finding(severity, f"launch.args.{flag}", f"{flag} {each.text}", each.hint))
    return found


def _whole(name: str, known: Collection[str]) -> str:
    longer = [each for each in known if each.startswith(name)]
    return longer[0] if name not in known and len(longer) == 1 else name


async def _on_host(
    desk: Desk, profile: Profile, looked: Mapping[str, Any] | None
) -> tuple[list[Finding], demands.ModelFacts, int | None]:
    from console.operations import launching

    try:
        facts = looked or await launching.look(desk, profile, model=model_folder(profile))
    except RemoteError:
        raise
    except ConsoleError as error:
        return [Finding(ERROR, "", error.one_line())], demands.ModelFacts(), None
    lacking = launching.lacking(profile, facts)
    found = [Finding(ERROR, key, f"{key.rpartition('.')[2]} {text} on {desk.link.host.name}") for key, text in lacking]
    if any(key == "launch.via" for key, _ in lacking):
        return found, demands.ModelFacts(), None
    met = launching.met(facts)
    if taken := launching.name_taken(met.unit):
        found.append(Finding(WARNING, "launch.docker.name", taken))
    found += [Finding(WARNING, "launch.via", text) for text in met.unit.get("warnings") or ()]
    ours = _ours(desk, profile)
    for owner in () if ours is not None else met.listeners:
        who = f"pid {owner['pid']} ({owner['user']})" if owner["pid"] else str(owner["user"])
        found.append(Finding(WARNING, "launch.port", f"port {profile.launch.port} is taken now by {who}"))
    session = ours.process.session if ours is not None and ours.process is not None else None
    holders = [one for one in met.gpu_processes or () if session is None or one["session"] != session]
    if holders:
        first = f"pid {holders[0]['pid']} ({str(holders[0]['title'])[:60]})"
        others = f" and {len(holders) - 1} more hold" if len(holders) > 1 else " holds"
        found.append(Finding(WARNING, "", f"{first}{others} GPU memory now"))
    said, cards = facts.get("model"), facts.get("gpus")
    if said is not None and said.get("fault"):
        found.append(Finding(WARNING, _model_key(profile), f"{said.get('path')}: {said['fault']}"))
    for shard in _texts(said, "shards_missing")[:3]:
        found.append(Finding(ERROR, _model_key(profile), f"{shard} of the model's index is not there"))
    elsewhere = profile.launch.via == SLURM  # the node is not known before
    count = len(cards) if cards and model_folder(profile) and not elsewhere else None
    return found + await _states(desk, profile), demands.model_facts(said), count


def _ours(desk: Desk, profile: Profile) -> Run | None:
    """Return the run that is shown where it has the port: a restart stops it first, what it holds is free then."""
    run = desk.store.snapshot.run
    if run is None or not run.adopted or run.phase not in LIVING or run.port != profile.launch.port:
        return None
    return run


def model_folder(profile: Profile) -> str:
    """Return the model's folder on the host; empty for a name of a hub, which is not asked."""
    folder = profile.launch.args.get(_model_key(profile).removeprefix("launch.args."))
    return folder if isinstance(folder, str) and folder.startswith("/") else ""


def _model_key(profile: Profile) -> str:
    spelled = dialect(profile.engine.kind)
    names = [name for name in profile.launch.args if spelled.canonical(name) == spelled.model]
    return f"launch.args.{names[0] if names else spelled.model}"


def _texts(said: Mapping[str, object] | None, name: str) -> list[str]:
    value = (said or {}).get(name)
    return [str(each) for each in value] if isinstance(value, list) else []


async def _install(desk: Desk, profile: Profile, *, ask: bool) -> InstallFlags | None:
    """Return the flags that the install takes; `None` for an engine that is not known."""
    from console.operations.install_flags import InstallFlags, install_flags

    try:
        engine(profile.engine.kind)
        return await install_flags(desk, profile, ask=ask)
    except UsageError:
        return None
    except RemoteError as error:
        return InstallFlags({}, "the install", f"could not be read: {error.one_line()}")


def _compared(profile: Profile, install: InstallFlags | None, *, ask: bool) -> list[Finding]:
    """Compare the arguments with the flags of the install."""
    if install is None:
        return []
    if not install.known:
        said = f"{install.install} {install.how}"
        return [Finding(WARNING, "engine.python", said)] if ask else []
    return [
        Finding(
            ERROR if fault.fatal else WARNING,
            f"launch.args.{fault.flag}",
            f"{fault.flag} {fault.what} ({install.install})",
            fault.hint,
        )
        for fault in engine(profile.engine.kind).check(profile, install.known)
    ]


async def _states(desk: Desk, profile: Profile) -> list[Finding]:
    """Compare the patches that the profile wants on with the files of the host."""
    from console.operations.patches import statuses

    if not profile.patches_on or ways.in_image(profile):
        return []
    try:
        known = {status.name: status for status in await statuses(desk)}
    except ConsoleError as error:
        return [Finding(WARNING, "patches.on", f"the patches could not be looked at: {error.one_line()}")]
    found = []
    for name in profile.patches_on:
        status = known.get(name)
        severity = _UNFIT.get(status.disk) if status is not None else None
        if status is None or severity is None:
            continue
        word = status.disk.value.replace("_", " ")
        hint = f"tokwatt patch apply {name}" if status.disk is DiskState.OFF else ""
        found.append(
            Finding(severity, "patches.on", f"{name} is {word}" + (f": {status.reason}" * bool(status.reason)), hint)
        )
    return found


def _placed(profile: Profile, finding: Finding) -> Finding:
    """Return a finding with the file and line of its key, or of the nearest key around it."""
    parts = finding.key
    while parts:
        if (place := profile.origins.get(parts)) is not None:
            return replace(finding, file=place[0], line=place[1])
        parts = parts.rpartition(".")[0]
    return replace(finding, file=profile.path)


def _once(found: Iterable[Finding]) -> list[Finding]:
    """Leave out what is said twice; errors first, then by place."""
    told = dict.fromkeys(found)
    return sorted(told, key=lambda each: (each.severity != ERROR, each.file, each.line))

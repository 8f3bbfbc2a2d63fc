"""`docker`: version, image inspect, run in the foreground, inspect, kill."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from tests.stand_ins.holding import STATE, alive, follow, hold, options, put, read

VALUED = {"--name", "--env", "--workdir", "--cidfile", "--network", "--publish", "-v", "--gpus", "--entrypoint",
          "--type", "--format", "--signal"}  # fmt: skip
DOWN = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"


def main(_name: str, words: list[str]) -> int:
    """Do what was asked; return the exit status."""
    verb, words = words[0], words[1:]
    if (STATE / "daemon-down").exists():
        print(("docker: " if verb == "run" else "") + DOWN, file=sys.stderr)
        return 125 if verb == "run" else 1
    if verb == "image":
        return _image(words)
    given, rest = options(words, VALUED)
    if verb == "version":
        print("28.2.2")
        return 0
    about = _find(rest[0]) if verb in ("inspect", "kill") else None
    if verb == "run":
        return _run(given, rest)
    if about is None:
        print(f"Error response from daemon: No such container: {rest[0]}", file=sys.stderr)
        return 1
    return _inspect(about, dict(given)) if verb == "inspect" else _kill(about, dict(given))


def _find(name: str) -> Path | None:
    for about in (STATE / "containers").glob("*.json"):
        if name in (about.stem, read(about).get("name")):
            return about
    return None


def _image(words: list[str]) -> int:
    if (STATE / "images" / words[-1].replace("/", "_")).exists():
        print("sha256:" + "5e" * 32)
        return 0
    print(f"Error response from daemon: No such image: {words[-1]}", file=sys.stderr)
    return 1


def _run(given: list[tuple[str, str]], rest: list[str]) -> int:
    values = dict(given)
    image, argv = rest[0], rest[1:]
    taken = _find(values["--name"])
    if taken is not None:
        said = f'Conflict. The container name "/{values["--name"]}" is already in use by container "{taken.stem}".'
        more = "You have to remove (or rename) that container to be able to reuse that name."
        print(f"docker: Error response from daemon: {said} {more}\n\nRun 'docker run --help' for more information",
              file=sys.stderr)  # fmt: skip
        return 125
    if not (STATE / "images" / image.replace("/", "_")).exists():
        print(f"Unable to find image '{image}' locally", file=sys.stderr)
        denied = "repository does not exist or may require 'docker login': denied: requested access to the resource is denied"
        print(f"docker: Error response from daemon: pull access denied for {image}, {denied}", file=sys.stderr)
        return 125
    env = {"PATH": os.environ["PATH"], "HOME": "/root"}
    for name, value in given:
        if name == "--env":
            key, equals, text = value.partition("=")
            if equals or key in os.environ:
                env[key] = text if equals else os.environ[key]
    env.pop("TOKWATT_MARK", None)  # as where the container's processes are root's, and their environment unreadable
    number = os.urandom(32).hex()
    about = STATE / "containers" / f"{number}.json"
    put(about, name=values["--name"], image=image, created=time.strftime("%Y-%m-%dT%H:%M:%S.0Z"))
    if "--cidfile" in values:
        Path(values["--cidfile"]).write_text(number)
    entry = [values["--entrypoint"]] if "--entrypoint" in values else []
    hold(about, entry + argv, env, values.get("--workdir", ""))
    if fault := read(about).get("fault"):
        print(f"docker: Error response from daemon: failed to create task for container: {fault}", file=sys.stderr)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(read(about)["pid"], signal.SIGTERM))
    status = follow(about)
    about.unlink()
    return status


def _inspect(about: Path, given: dict[str, str]) -> int:
    told = read(about)
    running = "exit" not in told and alive(told.get("pid", 0))
    status = "running" if running else "exited" if "exit" in told else "created"
    if given["--format"] == "{{json .State}}":
        state = {"Status": status, "Running": running, "Paused": False, "Restarting": False, "OOMKilled": False,
                 "Dead": False, "Pid": told["pid"] if running else 0, "ExitCode": told.get("exit", 0), "Error": "",
                 "StartedAt": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(told.get("started", 0))) + ".5Z"}  # fmt: skip
        print(json.dumps(state))
    else:
        print("|".join([about.stem, status, told["image"], told["created"]]))
    return 0


def _kill(about: Path, given: dict[str, str]) -> int:
    told = read(about)
    if "exit" in told:
        said = f"cannot kill container: {about.stem}: container {about.stem} is not running"
        print(f"Error response from daemon: {said}", file=sys.stderr)
        return 1
    number = getattr(signal, "SIG" + given.get("--signal", "KILL"))
    os.killpg(told["pid"], number) if number == signal.SIGKILL else os.kill(told["pid"], number)
    print(about.stem)
    return 0

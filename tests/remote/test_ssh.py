"""Connecting over SSH: the same on both servers."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from console.domain.host import Link
from console.errors import (
    ConnectError,
    DeadlineError,
    HostKeyChangedError,
    HostKeyUnknownError,
    LinkLostError,
    LoginRefusedError,
    RemoteError,
)
from console.remote.http import http_client
from console.remote.link import HostLink
from console.remote.quoting import command_line
from console.remote.ssh import SshTransport, parse_destination
from console.remote.target import Target
from tests.ssh_servers import InProcessServer, SshServer, free_port, make_key

NOISE = Path(__file__).parent.parent / "data/ssh/noise.txt"

STRINGS = [
    "a'b", "$HOME", "`id`", "a!b", '{"a": "b"}', "line1\nline2", "E=512,N=128,block_shape=[128, 128].json",
    "", "ü▊", "x\\y", "~", "*", "tab\t", "%d", "-n", "=ls", "ends\n\n", "a\udcffb",
]  # fmt: skip


@contextlib.asynccontextmanager
async def linked(target: Target, **options: str) -> AsyncIterator[HostLink]:
    link = HostLink(SshTransport(target), **options)  # type: ignore[arg-type]
    try:
        await link.connect()
        yield link
    finally:
        await link.close()


async def test_a_call_goes_and_comes_back(link: HostLink) -> None:
    assert (await link.call("ping", {}, b"\x92\xff bytes")).body == b"\x92\xff bytes"
    assert await link.measure() == link.state.rtt_ms
    assert link.state.link is Link.UP
    assert link.state.degraded == ""


async def test_arguments_arrive_unchanged(link: HostLink) -> None:
    done = await link.run(["printf", "%s\\0", *STRINGS])
    assert done.output.decode("utf-8", "surrogateescape").split("\0")[:-1] == STRINGS


@pytest.mark.parametrize("shell", ["sh", "bash", "fish", "csh", "tcsh"])
async def test_arguments_arrive_unchanged_whatever_the_login_shell(shell: str, tmp_path: Path) -> None:
    path = shutil.which(shell)
    if path is None:
        if os.environ.get("CI"):
            pytest.fail(f"{shell} is missing: apt-get install fish csh tcsh")
        pytest.skip(f"{shell} is not installed")
    for text in STRINGS:
        out = subprocess.run([path, "-c", command_line(["printf", "%s", text])], capture_output=True, check=True).stdout
        assert out.decode("utf-8", "surrogateescape") == text
    async with InProcessServer(tmp_path / "ssh", shell=path) as server, linked(server.target) as link:
        assert link.state.degraded == ""
        assert (await link.run(["printf", "%s", "a'b!"])).output == b"a'b!"


async def test_an_unknown_key_is_shown_and_accepted_only_by_its_fingerprint(ssh_host: Target, tmp_path: Path) -> None:
    known = tmp_path / "new" / "known_hosts"
    stranger = replace(ssh_host, known_hosts=str(known))
    with pytest.raises(HostKeyUnknownError) as caught:
        await SshTransport(stranger).dial()
    error = caught.value
    assert error.fingerprint.startswith("SHA256:")
    assert error.fingerprint in error.one_line()
    with pytest.raises(HostKeyUnknownError):
        await SshTransport(stranger, accept_key="SHA256:another").dial()
    assert not known.exists()
    accepting = SshTransport(stranger, accept_key=error.fingerprint)
    await accepting.dial()
    await accepting.close()
    assert known.read_text() == error.line + "\n"
    again = SshTransport(stranger)
    await again.dial()
    await again.close()


async def test_a_changed_key_is_refused_with_both_fingerprints(ssh_host: Target, tmp_path: Path) -> None:
    other = make_key(tmp_path / "other")
    known = tmp_path / "known_hosts"
    known.write_text(f"# old\n[127.0.0.1]:{ssh_host.port} {other}\n")
    changed = replace(ssh_host, known_hosts=str(known))
    for accept in (None, "SHA256:x"):
        with pytest.raises(HostKeyChangedError) as caught:
            await SshTransport(changed, accept_key=accept).dial()
        assert caught.value.one_line().count("SHA256:") == 2
        assert f"{known}:2" in caught.value.one_line()


async def test_a_revoked_key_is_refused(ssh_host: Target, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    line = Path(ssh_host.known_hosts).read_text()
    known.write_text(line + "@revoked * " + line.split(" ", 1)[1])
    with pytest.raises(HostKeyChangedError, match="revoked"):
        await SshTransport(replace(ssh_host, known_hosts=str(known))).dial()


async def test_a_refused_login_names_what_was_offered(ssh_host: Target, tmp_path: Path) -> None:
    make_key(tmp_path / "stranger")
    with pytest.raises(LoginRefusedError) as caught:
        await SshTransport(replace(ssh_host, key_files=(str(tmp_path / "stranger"),))).dial()
    assert str(tmp_path / "stranger") in caught.value.one_line()
    assert caught.value.exit_code == 4


async def test_a_passphrase_is_asked_for_and_a_missing_one_said(ssh_server: SshServer, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    public = make_key(locked, passphrase="open sesame")
    with (tmp_path / "ssh/authorized_keys").open("a") as file:
        file.write(public + "\n")
    if isinstance(ssh_server, InProcessServer):
        pytest.skip("reads authorized_keys once, at its start")
    target = replace(ssh_server.target, key_files=(str(locked),))
    with pytest.raises(LoginRefusedError, match="passphrase"):
        await SshTransport(target).dial()
    answers = ["wrong", "open sesame"]
    asked = []

    async def ask(file: str) -> str:
        asked.append(file)
        return answers.pop(0)

    transport = SshTransport(target, ask_passphrase=ask)
    await transport.dial()
    await transport.dial()  # as a reconnect does: nobody is asked again
    await transport.close()
    assert asked == [str(locked)] * 2


@pytest.mark.skipif(shutil.which("ssh-agent") is None, reason="needs ssh-agent")
async def test_only_the_named_key_of_a_full_agent_is_offered(ssh_host: Target, tmp_path: Path) -> None:
    socket = tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        while not socket.exists():
            await asyncio.sleep(0.01)
        for number in range(7):
            make_key(tmp_path / f"other{number}")
        keys = [*(str(tmp_path / f"other{n}") for n in range(7)), ssh_host.key_files[0]]
        env = {**os.environ, "SSH_AUTH_SOCK": str(socket)}
        subprocess.run(["ssh-add", "-q", *keys], env=env, check=True)
        public = tmp_path / "named.pub"
        public.write_text(Path(f"{ssh_host.key_files[0]}.pub").read_text())
        config = tmp_path / "config"
        config.write_text(
            f"Host gpu\n  HostName 127.0.0.1\n  Port {ssh_host.port}\n  IdentityAgent {socket}\n  IdentitiesOnly yes\n"
            f"  IdentityFile {tmp_path}/named\n  UserKnownHostsFile {ssh_host.known_hosts}\n"
        )
        transport = SshTransport(Target("gpu"), config_files=[config], home=tmp_path)
        await transport.dial()
        assert transport.login is not None
        assert len(transport.login.offered) == 1
        await transport.close()
    finally:
        agent.terminate()
        agent.wait()


async def test_nobody_there_is_one_clear_line() -> None:
    port = free_port()
    with pytest.raises(ConnectError) as caught:
        await SshTransport(Target("nobody", "127.0.0.1", port, "me", read_config=False)).dial()
    assert str(port) in caught.value.title
    with pytest.raises(ConnectError, match="no such host name"):
        await SshTransport(Target("no.such.host.invalid", read_config=False)).dial()


async def test_a_lost_link_comes_back_and_calls_work_again(link: HostLink, ssh_server: SshServer) -> None:
    slow = asyncio.create_task(link.run(["sleep", "60"], deadline_s=90))
    while not slow.done() and link.round_trips == 0:
        await asyncio.sleep(0)
    seen: list[Link] = []

    async def watch() -> None:
        async for state in link.changes():
            if not seen or seen[-1] is not state.link:
                seen.append(state.link)
            if Link.LOST in seen and state.link is Link.UP:
                return

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    await ssh_server.drop()
    with pytest.raises(LinkLostError):
        await slow
    await asyncio.wait_for(watching, 30)
    assert seen[0] is Link.UP
    assert (await link.call("ping", {}, b"again")).body == b"again"


async def test_a_key_that_changes_meanwhile_ends_the_retries(
    ssh_host: Target, ssh_server: SshServer, tmp_path: Path
) -> None:
    async with linked(ssh_host) as link:
        Path(ssh_host.known_hosts).write_text(f"[127.0.0.1]:{ssh_host.port} {make_key(tmp_path / 'other')}\n")
        states = link.changes()
        await ssh_server.drop()
        async for state in states:
            if state.link is Link.REFUSED:
                break
        assert "changed" in link.state.error
        with pytest.raises(LinkLostError):
            await link.call("ping")


async def test_many_programs_at_once(link: HostLink) -> None:
    done = await asyncio.gather(*(link.run(["sh", "-c", f"sleep 0.2; echo {n}"]) for n in range(20)))
    assert [int(one.output) for one in done] == list(range(20))


async def test_many_channels_wait_for_the_budget(link: HostLink) -> None:
    took = await asyncio.gather(*(link.shell_ms() for _ in range(20)))
    assert len(took) == 20


async def test_a_silent_program_is_ended_with_its_deadline(link: HostLink, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    with pytest.raises(DeadlineError):
        await link.run(["sh", "-c", f"echo $$ > {pid_file}; exec sleep 300"], deadline_s=0.5)
    pid = int(pid_file.read_text())
    for _ in range(300):
        if not Path(f"/proc/{pid}").exists():
            break
        await asyncio.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()


async def test_a_silent_program_in_a_channel_frees_its_slot(link: HostLink) -> None:
    silent = [link._run_in_channel(["sleep", "300"], b"", 0.3) for _ in range(12)]  # more than MaxSessions
    for outcome in await asyncio.gather(*silent, return_exceptions=True):
        assert isinstance(outcome, DeadlineError)
    assert await link.shell_ms() > 0


async def test_login_noise_is_no_data(tmp_path: Path) -> None:
    shell = tmp_path / "noisy"
    shell.write_text(f'#!/bin/sh\nhead -n 3 {NOISE}\n/bin/sh "$@"\ns=$?\ntail -n 1 {NOISE}\nexit $s\n')
    shell.chmod(0o755)
    async with InProcessServer(tmp_path / "ssh", shell=str(shell)) as server, linked(server.target) as link:
        assert link.noise.startswith(b"\x1b[33m")
        assert (await link.call("ping", {}, b"x")).body == b"x"
        assert (await link.run(["echo", "row"])).output == b"row\n"
        assert (await link._run_in_channel(["echo", "row"], b"", 10)).output == b"row\n"
        async with link.program("console.telemetry.probe", "run", ["--source", "none"]) as channel:
            await channel.end_input()
            assert b"persistent" not in await channel.read()


async def test_big_output_and_invalid_bytes_are_exact(link: HostLink) -> None:
    data = os.urandom(3_000_000) + b"\x92\xff end\n"
    done = await link.run(["cat"], input=data)
    assert hashlib.sha256(done.output).digest() == hashlib.sha256(data).digest()
    done = await link.run(["sh", "-c", "head -c 3000000 /dev/zero >&2; echo ok; exit 7"])
    assert (done.status, done.output) == (7, b"ok\n")
    assert (await link.call("ping", {}, b"\x92\xff")).body == b"\x92\xff"


async def test_a_missing_program_is_said(link: HostLink) -> None:
    with pytest.raises(RemoteError) as caught:
        await link.run(["no-such-program-here"])
    assert caught.value.kind == "enoent"


async def test_an_unread_stream_holds_nobody_up(link: HostLink) -> None:
    parts = link.stream("run", {"argv": ["cat", "/dev/zero"], "timeout_s": 60})
    first = await anext(parts)
    assert first.body
    for _ in range(5):
        assert (await link.call("ping", {}, b"x", deadline_s=20)).body == b"x"
    for _ in range(100):  # and it goes on when it is read
        await anext(parts)
    await parts.aclose()
    assert (await link.call("ping", {}, b"x")).body == b"x"


async def test_http_keeps_its_connection_and_streams(link: HostLink) -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                if head.startswith(b"GET /stream"):
                    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                    for _ in range(3):
                        writer.write(b"2\r\nab\r\n")
                        await writer.drain()
                    writer.write(b"0\r\n\r\n")
                else:
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with http_client(link, port) as client:
        assert [(await client.get("/x")).text for _ in range(3)] == ["hi"] * 3
        async with client.stream("GET", "/stream") as response:
            assert b"".join([part async for part in response.aiter_bytes()]) == b"ababab"
        assert connections == 1
    async with http_client(link, free_port()) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get("/")
    server.close()
    await server.wait_closed()


async def test_a_jump_host_and_every_key_on_the_way_is_checked(ssh_host: Target, tmp_path: Path) -> None:
    async with InProcessServer(tmp_path / "jump") as jump:
        both = tmp_path / "known"
        both.write_text(Path(jump.target.known_hosts).read_text() + Path(ssh_host.known_hosts).read_text())
        config = tmp_path / "config"
        config.write_text(
            f"Host inner\n  HostName 127.0.0.1\n  Port {ssh_host.port}\n  ProxyJump outer\n"
            f"  IdentityFile {ssh_host.key_files[0]}\n"
            f"Host outer\n  HostName 127.0.0.1\n  Port {jump.target.port}\n  IdentityFile {jump.target.key_files[0]}\n"
            f"Host *\n  UserKnownHostsFile {both}\n  IdentitiesOnly yes\n  GlobalKnownHostsFile none\n"
        )
        transport = SshTransport(Target("inner"), config_files=[config], home=tmp_path)
        await transport.dial()
        channel = await transport.start(["echo", "through"])
        assert await channel.read() == b"through\n"
        await channel.close()
        await transport.close()
        both.write_text(Path(ssh_host.known_hosts).read_text())
        with pytest.raises(HostKeyUnknownError) as caught:
            await SshTransport(Target("inner"), config_files=[config], home=tmp_path).dial()
        assert caught.value.port == jump.target.port


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("gpu-a", ("gpu-a", "", 0)),
        ("me@gpu-a:2222", ("gpu-a", "me", 2222)),
        ("me@[fd00::1]:22", ("fd00::1", "me", 22)),
        ("fd00::1", ("fd00::1", "", 0)),
        ("ssh://me@h:1/", ("h", "me", 1)),
        ("a@b@c", ("c", "a@b", 0)),
    ],
)
def test_destinations(text: str, parts: tuple[str, str, int]) -> None:
    assert parse_destination(text) == parts


@pytest.mark.parametrize(
    "text",
    [
        "",
        "me@",
        "h:x",
        "h:0",
        "h:70000",
        "-oProxyCommand=x",
        "a b",
        "h:",
        "h;id",
        "$(id)@h",
        "-l@h",
        "h\udcff",
        "h\x1b",
    ],
)
def test_bad_destinations(text: str) -> None:
    with pytest.raises(ValueError):
        parse_destination(text)

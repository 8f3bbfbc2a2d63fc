"""The demo host's SSH server: keys are checked, programs are real, limits are OpenSSH's."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncssh
import pytest

from console.demo import layout
from console.demo.processes import marked
from console.demo.server import DemoServer
from tests.demo.conftest import login


async def test_runs_programs_inside_its_own_home(server: DemoServer) -> None:
    async with login(server) as connection:
        done = await connection.run('pwd; echo "$HOME"; command -v nvidia-smi; exit 3', encoding=None)
    home, again, smi = _bytes(done).decode().split()
    assert home == again == str(server.folder / "home")
    assert smi == str(server.folder / "bin" / "nvidia-smi")
    assert done.exit_status == 3


async def test_refuses_another_user_key(server: DemoServer) -> None:
    stranger = asyncssh.generate_private_key("ssh-ed25519")
    with pytest.raises(asyncssh.PermissionDenied):
        await asyncssh.connect(
            "127.0.0.1",
            server.port,
            username="demo",
            client_keys=[stranger],
            known_hosts=str(server.keys.known_hosts),
            config=None,
            agent_path=None,
        )


async def test_is_not_trusted_under_another_host_key(server: DemoServer, tmp_path: Path) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().split()
    known = tmp_path / "known"
    known.write_text(f"[127.0.0.1]:{server.port} {other[0]} {other[1]}\n")
    with pytest.raises(asyncssh.HostKeyNotVerifiable):
        await asyncssh.connect(
            "127.0.0.1",
            server.port,
            username="demo",
            client_keys=[str(server.keys.user_key)],
            known_hosts=str(known),
            config=None,
            agent_path=None,
        )


async def test_closed_input_reaches_the_program_and_its_output_comes_back_whole(server: DemoServer) -> None:
    async with login(server) as connection:
        program = await connection.create_process("cat; echo end >&2", encoding=None)
        program.stdin.write(b"\x00\xff" * 1_500_000)
        program.stdin.write_eof()
        out, complaint = await asyncio.gather(program.stdout.read(), program.stderr.read())
        status = (await program.wait()).exit_status
    assert out == b"\x00\xff" * 1_500_000
    assert complaint == b"end\n"
    assert status == 0


async def test_closing_a_channel_closes_the_input_of_its_program(server: DemoServer) -> None:
    async with login(server) as connection:
        program = await connection.create_process("cat", encoding=None)
        program.stdin.write(b"x")
        assert await program.stdout.read(1) == b"x"
        assert marked(server.keys.marker)
        program.close()
        await _until_nothing_runs(server)


async def test_a_cut_connection_closes_the_input_of_its_programs(server: DemoServer) -> None:
    async with login(server) as connection:
        program = await connection.create_process("cat", encoding=None)
        program.stdin.write(b"x")
        assert await program.stdout.read(1) == b"x"
        assert server.drop_connection() == 1
        await connection.wait_closed()
    await _until_nothing_runs(server)


async def test_an_eleventh_session_is_refused_until_one_ends(server: DemoServer) -> None:
    async with login(server) as connection:
        programs = [await connection.create_process("cat", encoding=None) for _ in range(10)]
        with pytest.raises(asyncssh.ChannelOpenError) as refused:
            await connection.create_process("cat", encoding=None)
        assert refused.value.code == asyncssh.OPEN_CONNECT_FAILED
        programs[0].stdin.write_eof()
        await programs[0].wait()
        done = await connection.run("echo again", encoding=None)
        assert done.stdout == b"again\n"


async def test_forwards_to_loopback_only(server: DemoServer) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with listener, login(server) as connection:
        reader, _ = await connection.open_connection("127.0.0.1", port, encoding=None)
        assert await reader.read() == b"hello"
        with pytest.raises(asyncssh.ChannelOpenError):
            await connection.open_connection("192.0.2.1", 80, encoding=None)


async def test_a_terminal_is_a_real_one(server: DemoServer) -> None:
    async with login(server) as connection:
        program = await connection.create_process(
            "stty size; test -t 0 && exit 7", term_type="xterm", term_size=(100, 30), encoding=None
        )
        assert b"30 100" in await program.stdout.read()
        assert (await program.wait()).exit_status == 7


async def test_the_engine_package_is_found_without_importing_it(server: DemoServer) -> None:
    text = (
        "import importlib.metadata as m, importlib.util as u, sys; s = u.find_spec('sglang');"
        "print(s.submodule_search_locations[0], m.version('sglang'), 'sglang' in sys.modules)"
    )
    async with login(server) as connection:
        done = await connection.run(f'python3 -c "{text}"', encoding=None)
    found = _bytes(done).decode().split()
    assert found == [str(layout.package_folder(server.folder)), "0.5.9", "False"]


async def test_the_checkout_is_clean_and_drift_makes_it_dirty(server: DemoServer) -> None:
    async with login(server) as connection:
        before = await connection.run("cd sglang && git status --porcelain && git log --oneline", encoding=None)
        server.drift("srt/model_executor/model_runner.py")
        after = await connection.run("cd sglang && git status --porcelain", encoding=None)
    assert len(_bytes(before).splitlines()) == 3
    assert after.stdout == b" M python/sglang/srt/model_executor/model_runner.py\n"


async def _until_nothing_runs(server: DemoServer) -> None:
    async with asyncio.timeout(10):
        while marked(server.keys.marker):
            await asyncio.sleep(0.02)


def _bytes(done: asyncssh.SSHCompletedProcess) -> bytes:
    assert isinstance(done.stdout, bytes)
    return done.stdout

"""Connecting over SSH: the same on both servers."""

from __future__ import annotations

from console.remote.link import HostLink

STRINGS = [
    "a'b", "$HOME", "`id`", "a!b", '{"a": "b"}', "line1\nline2", "E=512,N=128,block_shape=[128, 128].json",
    "", "ü▊", "x\\y", "~", "*", "tab\t", "%d", "-n", "=ls", "ends\n\n",
]  # fmt: skip


async def test_a_call_goes_and_comes_back(link: HostLink) -> None:
    reply = await link.call("ping", {}, b"\x92\xff bytes")
    assert reply.body == b"\x92\xff bytes"
    assert link.state.rtt_ms is not None


async def test_arguments_arrive_unchanged(link: HostLink) -> None:
    done = await link.run(["printf", "%s\\0", *STRINGS])
    assert done.output.decode().split("\0")[:-1] == STRINGS

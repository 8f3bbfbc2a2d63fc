"""Where a def or class stands, whether this interpreter can parse the file or not."""

from __future__ import annotations

import pytest

from console.patching.within import ranges

SOURCE = b'''import a

class One:
    @staticmethod
    def run(
        x,
    ):
        """Says

def not_this(): at the margin of a string
        """
        if x:
            def deep():
                return 1
        # a comment
        return 2

    def other(self):
        return 3


async def run():
    return [
        4,
    ]
'''


def texts(source: bytes, name: str) -> list[bytes]:
    return [source[low:high] for low, high in ranges(source, name)]


def test_by_name_qualified_name_and_nested() -> None:
    first, second = texts(SOURCE, "run")
    assert first.startswith(b"    @staticmethod") and first.endswith(b"return 2\n")
    assert second == b"async def run():\n    return [\n        4,\n    ]\n"
    assert texts(SOURCE, "One.run") == [first]
    assert texts(SOURCE, "deep") == [b"            def deep():\n                return 1\n"]
    assert texts(SOURCE, "One")[0].endswith(b"return 3\n")
    assert texts(SOURCE, "nothing") == []


@pytest.mark.parametrize("eol", [b"\n", b"\r\n"])
def test_a_file_of_another_python_is_read_by_its_indentation(eol: bytes) -> None:
    source = b"class A:\n    def f(self):\n        x = 1\n\n        y = 2\n    z = 3\n\nprint 'two'\n".replace(
        b"\n", eol
    )
    assert texts(source, "A.f") == [b"    def f(self):\n        x = 1\n\n        y = 2\n".replace(b"\n", eol)]


def test_the_last_def_of_a_file_without_final_newline() -> None:
    assert texts(b"def f():\n    return 1", "f") == [b"def f():\n    return 1"]

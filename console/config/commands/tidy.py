"""What pasting does to a command: prompts, code fences, typographic quotes and dashes, foreign line ends."""

from __future__ import annotations

import html
import re

from console.config.commands.notes import NOTE, WARNING, Note

_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "‟": '"', "‘": "'", "’": "'", "‚": "'", "‛": "'"})
_QUOTED = re.compile("[“„‟]([^“”„‟']*\"[^“”„‟']*)”")
"""A typographic pair around plain quotes: it was a single quote before an editor had it."""
_FOREIGN_END = re.compile(r"(?<=\s)[\^`](?=\s*$)")
_BLANKS = re.compile("[\u00a0\u2007\u202f\u2009\u200a\u3000]")
_UNSEEN = re.compile("[\u200b\u200c\u200d\u2060\ufeff]")
_LONG_DASH = re.compile(r"(?<=\s)(?:[\u2012-\u2015\u2212]-?|-[\u2012-\u2015\u2212])(?=[A-Za-z])")
_PROMPT = re.compile(
    r"^\s*(?:\([\w.-]+\)\s*)?(?:\$|[\w.-]+@[\w.-]+:?[^\s$#%]*\s?[$#%]|\[[\w.-]+@[\w.-]+ [^\]]*\][$#])\s+(?=\S)"
)
_PS = re.compile(
    r"^\S+\s+\d+\s+(?:[\d.]+\s+[\d.]+\s+\d+\s+\d+\s+\S+\s+[A-Z]\S*\s+\S+\s+\d+:\d\d|\d+\s+\d+\s+\S+\s+\S+\s+\d\d:\d\d:\d\d)\s+(?=\S)"
)
"""Columns of `ps aux` and `ps -ef`."""
_STARTS = r"(?:[A-Z_]+=\S*\s+)*(?:\S*/)?(?:python[\d.]*|vllm|sglang|llama-server|docker|podman|sudo|nohup|env|export)\s"
_MARK = re.compile(rf"^\s*(?:\d+[.)]|[*•-]|!|%%?(?:bash|sh)?|[A-Za-z0-9]{{1,12}}\t)\s*(?={_STARTS})")
"""Numbers and dots of lists, and what notebooks want in front of a command."""
_ENTITY = re.compile(r"&(?:gt|lt|amp|quot|#39|#34|nbsp);")
_INLINE = re.compile(r"^\s*`([^`]+)`\s*$")
_QUOTED_LINE = re.compile(r"\s*>(?: |$)")
_FENCE = re.compile(r"^\s*(?:```|~~~)")


def tidied(text: str) -> tuple[str, list[Note]]:
    """Return a text as it was typed before it was pasted, line for line, and what was put right."""
    notes: list[Note] = []
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    quoted = all(line.lstrip().startswith(">") for line in lines if line.strip())
    continued = False
    for number, line in enumerate(lines, 1):
        if (quoted or continued) and (sign := _QUOTED_LINE.match(line)) is not None:
            line = line[sign.end() :]  # a quotation, or the sign with which a shell asks for the rest
        lines[number - 1] = line = _line(line, number, notes)
        continued = line.rstrip().endswith("\\")
    return "\n".join(lines), notes


def _line(line: str, number: int, notes: list[Note]) -> str:
    if _FENCE.match(line) or line.strip() in ("%%bash", "%%sh"):
        return ""
    if _ENTITY.search(line):
        line = html.unescape(line)
        notes.append(Note(WARNING, "signs that a web page had put into words (&gt;) were read as signs", number))
    if (inline := _INLINE.match(line)) is not None:
        line = inline[1]
    if _UNSEEN.search(line):
        line = _UNSEEN.sub("", line)
        notes.append(Note(WARNING, "characters without width were taken out", number))
    if (plain := _QUOTED.sub(r"'\1'", line).translate(_QUOTES)) != line:
        line = plain
        notes.append(Note(WARNING, "typographic quotes were read as plain ones", number))
    if _BLANKS.search(line):
        line = _BLANKS.sub(" ", line)
        notes.append(Note(NOTE, "blanks that do not break were read as blanks", number))
    if (plain := _LONG_DASH.sub("--", line)) != line:
        line = plain
        notes.append(Note(WARNING, "a typographic dash was read as --", number))
    if (plain := _FOREIGN_END.sub(r"\\", line)) != line and line.count("`") % 2 == (line.rstrip()[-1] == "`"):
        line = plain
        notes.append(Note(WARNING, "the continuation sign of another shell was read as a backslash", number))
    if (prompt := _PROMPT.match(line)) is not None:
        line = line[prompt.end() :]
    if (columns := _PS.match(line)) is not None:
        line = line[columns.end() :]
        notes.append(Note(WARNING, "a line of ps: it does not show quotes, nor the environment", number))
    if (mark := _MARK.match(line)) is not None:
        line = line[mark.end() :]
    return line

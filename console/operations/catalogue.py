"""The catalogue: every verb of an operator, with its key, its words and its place in a shell.

Bindings, palette, help screen and footer are built from it, and a test compares it with the command line's parser.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verb:
    """One thing an operator can do."""

    id: str
    """Name of the action, verb first."""
    title: str
    """A few words, for the palette and the footer."""
    help: str
    """One sentence."""
    keys: tuple[str, ...] = ()
    """Keys in Textual's names; the first is the one that is told."""
    cli: tuple[str, ...] = ()
    """Subcommands that do the same; empty where a shell has better ways."""
    where: str = ""
    """Pane whose focus the key needs: `source`, `patches`, `log`; empty means anywhere in the cockpit."""
    footer: str = ""
    """Word in the footer; empty keeps it out of there."""
    group: str = ""
    """Heading in the help."""

    @property
    def on_host(self) -> bool:
        """Whether it can do nothing without the host."""
        return self.id in ON_HOST


def _source(id: str, title: str, help: str, key: str, cli: str = "", *keys: str, footer: str = "") -> Verb:
    """Return a verb of the source pane."""
    return Verb(id, title, help, (key, *keys), (cli,) if cli else (), "source", footer, "Source")


def _log(id: str, title: str, help: str, key: str, footer: str = "") -> Verb:
    """Return a verb of the log pane."""
    return Verb(id, title, help, (key,), ("logs",), "log", footer, "Log")


ON_HOST = frozenset(
    [
        "open_server_menu",
        "start_server",
        "stop_server",
        "restart_server",
        "attach_server",
        "show_servers",
        "adopt_server",
        "measure",
        "save_winner",
        "grep_tree",
        "diff_head",
        "toggle_patch",
        "check_patches",
        "capture_patch",
        "show_patch_file",
        "undo_change",
        "show_topology",
    ]
)
"""Verbs that say at once that the link is down."""

VERBS: tuple[Verb, ...] = (
    # panes
    Verb("show_source", "Source", "Go to the source pane.", ("1",), ("ls", "cat", "which"), group="Panes"),
    Verb("show_patches", "Patches", "Go to the patches.", ("2",), ("patch list",), group="Panes"),
    Verb("show_log", "Log", "Go to the server's log.", ("3",), ("logs",), group="Panes"),
    Verb("show_gpus", "GPUs", "Go to the GPU gauges.", ("4",), ("gpus",), group="Panes"),
    Verb("show_throughput", "Throughput", "Go to the throughput gauge.", ("5",), group="Panes"),
    Verb(
        "show_runs",
        "Runs",
        "What was run and measured before, from the journal.",
        ("6",),
        ("runs list",),
        group="Panes",
    ),
    Verb(
        "show_why",
        "Why",
        "What binds the server now: its signs, what would refute it, and what to try.",
        ("7",),
        ("gpus",),
        group="Panes",
    ),
    Verb(
        "show_topology",
        "Topology",
        "How the GPUs are joined, their links, limits, clocks and ECC, and what changed since the base run.",
        ("8",),
        ("gpus",),
        group="Panes",
    ),
    Verb(
        "zoom_pane", "Zoom pane", "Give the focused pane the whole screen, or take it back.", ("plus",), group="Panes"
    ),
    Verb("next_host", "Next host", "Go to the next host of the cockpit.", ("right_curly_bracket",), group="Panes"),
    Verb("previous_host", "Previous host", "Go to the host before.", ("left_curly_bracket",), group="Panes"),
    # server
    Verb(
        "open_server_menu",
        "Server menu",
        "Start, stop or restart the server of the profile.",
        ("x",),
        ("serve status",),
        footer="server",
        group="Server",
    ),
    Verb("start_server", "Start server", "Launch the server from the profile.", (), ("serve start",), group="Server"),
    Verb(
        "stop_server", "Stop server", "Stop the server that this profile started.", (), ("serve stop",), group="Server"
    ),
    Verb("restart_server", "Restart server", "Stop and launch again.", (), ("serve restart",), group="Server"),
    Verb(
        "attach_server", "Attach to server", "Look for a running server again.", (), ("serve attach",), group="Server"
    ),
    Verb(
        "show_servers",
        "Servers on this host",
        "Every engine server of the host, whoever started it: attach, adopt, or stop with its pid typed.",
        (),
        ("serve status", "serve attach", "serve adopt", "serve stop"),
        group="Server",
    ),
    Verb(
        "adopt_server",
        "Adopt server",
        "Make a run of the server that is shown and that tokwatt did not start; it goes on as it is.",
        (),
        ("serve adopt",),
        group="Server",
    ),
    Verb(
        "show_profiles",
        "Profiles",
        "Asked for and in force, side by side; choose another profile.",
        ("p",),
        ("profile list", "profile show", "profile check", "profile command"),
        footer="profiles",
        group="Server",
    ),
    Verb(
        "import_profile",
        "Import a profile",
        "Make a profile out of a launch command as it was pasted, from a file or into $EDITOR; nothing is run.",
        (),
        ("profile import",),
        group="Server",
    ),
    # measuring
    Verb(
        "measure",
        "Measure",
        "Measure the profile's concurrency ladder against the running server.",
        ("b",),
        ("bench run",),
        footer="measure",
        group="Measure",
    ),
    Verb(
        "save_winner",
        "Save winner",
        "Save the configuration that runs, with its evidence, as a new profile.",
        ("ctrl+s",),
        ("profile save",),
        footer="save winner",
        group="Measure",
    ),
    Verb(
        "show_experiments",
        "Experiments",
        "Arms against a base, measured in pairs: plan, run, verdicts.",
        ("X",),
        ("experiment list", "experiment plan", "experiment run"),
        group="Measure",
    ),
    # patches
    Verb(
        "toggle_patch",
        "Apply or revert",
        "Apply the patch under the cursor, or take it back; its diff is on screen.",
        ("space",),
        ("patch apply", "patch revert"),
        "patches",
        "apply/revert",
        "Patches",
    ),
    Verb(
        "apply_set",
        "Apply the profile's set",
        "Turn all patches of the profile on as one write, or off again when they are on.",
        ("a",),
        ("patch apply",),
        "patches",
        "set",
        "Patches",
    ),
    Verb(
        "check_patches",
        "Check patches",
        "Look at the files again.",
        ("r",),
        ("patch check",),
        "patches",
        group="Patches",
    ),
    Verb(
        "capture_patch",
        "Capture patch",
        "Make a patch of the host's uncommitted changes.",
        ("c",),
        ("patch capture",),
        "patches",
        group="Patches",
    ),
    Verb(
        "show_patch_file",
        "Open patched file",
        "Open the patched file in the source pane.",
        ("enter",),
        (),
        "patches",
        "open file",
        "Patches",
    ),
    # log
    _log("filter_log", "Filter log", "Show only records that match an expression; empty shows all.", "slash", "filter"),
    _log("invert_filter", "Invert filter", "Show what the filter's expression does not match.", "i"),
    _log("filter_rank", "Filter rank", "Show only records of a rank (TP3, DP1 TP0, 3); empty shows all.", "r"),
    _log("filter_level", "Filter level", "Show all records, warnings and worse, or errors.", "v", "level"),
    _log("filter_kind", "Filter kind", "Show only records of some kinds (decode, phase, failure …).", "t"),
    _log("pause_log", "Pause or follow", "Stop following the log's end, or follow it again.", "space", "pause"),
    _log("open_record", "Open record", "Unfold a record of several lines, or read a long one whole.", "enter", "open"),
    _log("fold_all", "Fold or unfold all", "Fold all records of several lines, or unfold them.", "f"),
    _log(
        "toggle_polls",
        "Hide or show polls",
        "Access lines of polls, ours and others', are hidden until asked for; a filter finds them.",
        "o",
        "polls",
    ),
    _log("next_error", "Next problem", "Go to the next failure, error or warning.", "n", "next problem"),
    _log("previous_error", "Previous problem", "Go to the failure, error or warning before.", "N"),
    _log("next_failure", "Next error", "Go to the next failure or error; warnings are passed over.", "e"),
    _log("previous_failure", "Previous error", "Go to the failure or error before.", "E"),
    _log("previous_log", "Previous run's log", "Show the log of the run before this one; esc comes back.", "P"),
    _log("copy_record", "Copy record", "Send the record to the terminal's clipboard, as plain text.", "y"),
    _log("copy_log", "Copy log", "Send all records that are shown, or keep them in a file when they are long.", "Y"),
    # source pane
    _source(
        "find_text",
        "Find",
        "Find a regular expression in the open file; in the tree, filter the names.",
        "slash",
        footer="find",
    ),
    _source(
        "grep_tree", "Grep", "Search every file below the engine package, or where you say.", "f", "grep", footer="grep"
    ),
    _source(
        "find_file",
        "Find file",
        "Open a file anywhere below the tree's top folder by some of its letters.",
        "F",
        "ls",
        footer="file",
    ),
    _source("stop_search", "Stop search", "Stop the running search, on the host too.", "S"),
    _source(
        "show_outline",
        "Outline",
        "Go to a class or def of the open file by some of its letters.",
        "o",
        "outline",
        footer="outline",
    ),
    _source("show_symbol", "Whole def", "Show the enclosing def or class whole, or the file again.", "d", footer="def"),
    _source(
        "go_to_definition",
        "Definition",
        "Go to where a name of this line is defined.",
        "t",
        "refs",
        footer="definition",
    ),
    _source("show_references", "References", "Every line of the tree where a name of this line stands.", "r", "refs"),
    _source(
        "diff_head",
        "Diff to HEAD",
        "Show the working tree against git HEAD; where there is no git, the open file as installed.",
        "D",
        "diff",
        footer="diff",
    ),
    _source(
        "show_changed",
        "Changed by hand",
        "Check every engine package against its RECORD or git.",
        "H",
        "changed",
        footer="changed",
    ),
    _source(
        "compare_with",
        "Compare with",
        "Show the file beside another one, as installed, of another install or host; or two runs as loaded.",
        "B",
        "diff",
    ),
    _source(
        "capture_shown",
        "Capture as patch",
        "Make a patch of the changes that are shown, or of this file's uncommitted ones.",
        "c",
        "patch capture",
    ),
    _source(
        "edit_file", "Edit", "Open the file in your $EDITOR and write it back, verified.", "e", "edit", footer="edit"
    ),
    _source("switch_sides", "Side by side", "Show a comparison side by side, or unified again.", "s", "diff"),
    _source("switch_spaces", "White space", "Mark white space in a file; leave its changes out of a comparison.", "W"),
    _source("switch_wrap", "Wrap", "Break long lines, or let them run on.", "w"),
    _source("switch_case", "Case", "Find small and capital letters as equal, or as they are.", "i"),
    _source("more_context", "More context", "Show more lines around changes.", "equals_sign"),
    _source("less_context", "Less context", "Show fewer lines around changes.", "minus"),
    _source(
        "previous_hit",
        "Previous hit",
        "Go to the hunk before, or open the hit before, across files.",
        "left_square_bracket",
    ),
    _source("next_hit", "Next hit", "Go to the next hunk, or open the next hit, across files.", "right_square_bracket"),
    _source("go_to_line", "Go to line", "Go to a line by its number.", "ctrl+g"),
    _source("go_to_folder", "Go to folder", "Show the tree of another folder: a checkout, a run, any path.", "T", "ls"),
    _source("history_back", "History back", "Go back to where you were before.", "less_than_sign", "", "backspace"),
    _source("history_forward", "History forward", "Go forward again.", "greater_than_sign"),
    _source("set_mark", "Mark line", "Mark the line, or take its mark away.", "m"),
    _source("show_marks", "Marks", "Go to a marked line.", "apostrophe"),
    _source("pick_range", "Pick lines", "Begin to pick lines to copy, or end it.", "v"),
    _source(
        "copy_line", "Copy", "Send the line, the picked lines, or the hunk as a patch to the terminal's clipboard.", "y"
    ),
    _source(
        "copy_place",
        "Copy file:line",
        "Send file:line, or the whole comparison as a patch, to the terminal's clipboard.",
        "Y",
    ),
    # anywhere
    Verb(
        "undo_change",
        "Undo",
        "Take back the last change that was made to the host.",
        ("z",),
        ("patch undo",),
        footer="undo",
        group="Host",
    ),
    Verb(
        "open_shell",
        "Shell on the host",
        "Leave the screen to a login shell on the host.",
        ("exclamation_mark",),
        group="Host",
    ),
    Verb(
        "show_commands",
        "Command log",
        "Every remote command with exit code and time.",
        ("at",),
        footer="commands",
        group="Host",
    ),
    Verb("reconnect", "Reconnect", "Try to connect again now.", ("ctrl+r",), ("doctor",), group="Host"),
    Verb("show_help", "Help", "All keys.", ("question_mark",), footer="help", group="Console"),
    Verb(
        "open_palette",
        "Palette",
        "Find a verb by name, or go to file:line.",
        ("colon", "ctrl+p"),
        footer="palette",
        group="Console",
    ),
    Verb("switch_theme", "Dark or light", "Switch between the dark and the light theme.", ("ctrl+t",), group="Console"),
    Verb("go_back", "Back", "Close what is open; never quits.", ("escape",), group="Console"),
    Verb("quit", "Quit", "Leave; the server goes on.", ("q", "ctrl+q"), group="Console"),
)

BY_ID = {verb.id: verb for verb in VERBS}

MOVING: tuple[tuple[str, str], ...] = (
    ("↑ ↓ j k", "one line"),
    ("ctrl+d ctrl+u", "half a page"),
    ("g G", "first, last line"),
    ("n N", "next, previous match"),
    ("[ ]", "previous, next hunk"),
    ("enter", "open"),
    ("tab", "next pane"),
)
"""Keys that move and change nothing, for the help."""

_NAMES = {
    "exclamation_mark": "!",
    "question_mark": "?",
    "at": "@",
    "colon": ":",
    "slash": "/",
    "plus": "+",
    "minus": "-",
    "equals_sign": "=",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "apostrophe": "'",
    "escape": "esc",
}


def shown_key(key: str) -> str:
    """Return a key as an operator reads it."""
    return _NAMES.get(key, key)


def verbs_of(pane: str) -> tuple[Verb, ...]:
    """Return the verbs whose keys need the focus of a pane."""
    return tuple(verb for verb in VERBS if verb.where == pane and verb.keys)

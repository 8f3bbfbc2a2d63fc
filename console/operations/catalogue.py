"""The catalogue: every verb of an operator, with its key, its words and its place in a shell.

Bindings, palette, help screen and footer are built from it, and a test compares it with the command line's parser.
"""

from __future__ import annotations

from console.operations.pane_verbs import LOG, SOURCE, Verb

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
    Verb(
        "take_over",
        "Take over the host",
        "See which operator measures on this host from another machine; typing the name in full ends that hold.",
        (),
        ("experiment holder", "experiment take-over"),
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
    *LOG,
    *SOURCE,
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

__all__ = ["BY_ID", "MOVING", "VERBS", "Verb", "shown_key", "verbs_of"]

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

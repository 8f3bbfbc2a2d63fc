"""What a verb is, and the verbs of the log and the source pane."""

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

    @property
    def disturbs(self) -> bool:
        """Whether it would spoil an experiment that is under way on the host."""
        return self.id in DISTURBING


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
        "take_over",
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

DISTURBING = frozenset(
    [
        "open_server_menu",
        "start_server",
        "stop_server",
        "restart_server",
        "adopt_server",
        "measure",
        "save_winner",
        "toggle_patch",
        "apply_set",
        "edit_file",
        "undo_change",
    ]
)
"""Verbs that change the server, its code or its load: not while an experiment does."""

LOG: tuple[Verb, ...] = (
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
    _log(
        "search_log",
        "Search whole log",
        "Search the whole log on the host for what the filter wants, not only what is loaded; esc comes back.",
        "A",
    ),
    _log("copy_record", "Copy record", "Send the record to the terminal's clipboard, as plain text.", "y"),
    _log("copy_log", "Copy log", "Send all records that are shown, or keep them in a file when they are long.", "Y"),
)

SOURCE: tuple[Verb, ...] = (
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
)

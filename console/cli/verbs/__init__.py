"""One module per verb family: its arguments, and how its answer is printed."""

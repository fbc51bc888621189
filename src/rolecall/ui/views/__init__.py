"""How requests are shown: on a terminal, as plain text, as JSON lines, as differences."""

"""Options shared by several commands, and the files that they name."""

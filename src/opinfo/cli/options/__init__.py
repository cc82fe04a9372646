"""Options that several commands have, and the files that they name."""

"""How a command runs: exit status, signals, progress, standard error."""

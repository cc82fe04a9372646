"""Running a command: exit status, signals, progress, standard error."""

"""What every file is held to: errors in one line, shapes, types, limits of the process."""

"""opinfo as a whole: its start-up, and its speed against another revision of it."""

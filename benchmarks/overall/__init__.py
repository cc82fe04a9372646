"""opinfo as a whole: import time, and speed relative to another revision."""

"""Child processes: starting and ending them, time limits, temporary folders, trust."""

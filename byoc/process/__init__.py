"""Child processes: how they are started and ended, how long they may take, where they write."""

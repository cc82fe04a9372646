"""Files and folders that other processes may change."""

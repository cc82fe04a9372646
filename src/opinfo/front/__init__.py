"""The verbs of the front door, a file each."""

"""The backends that come with opinfo."""

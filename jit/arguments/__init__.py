"""Arguments of compiled models: what they must be, and how that is checked."""

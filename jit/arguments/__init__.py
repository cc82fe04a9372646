"""Arguments of compiled models: signatures and checks."""

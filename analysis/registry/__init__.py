"""Register recognisers, call them, and check what they propose."""

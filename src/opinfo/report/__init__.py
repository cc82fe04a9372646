"""Reports as text, tables and JSON."""

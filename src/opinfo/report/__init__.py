"""Reports as text and tables, for people and programs."""

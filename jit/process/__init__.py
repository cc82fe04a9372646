"""Processes of ours: lines of JSON, patience, temporary folders."""

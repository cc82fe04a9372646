"""A module with symbolic shapes, compiled: strategies, call sites, one library."""

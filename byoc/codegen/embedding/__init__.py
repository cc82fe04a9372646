"""Constants as data of a library."""

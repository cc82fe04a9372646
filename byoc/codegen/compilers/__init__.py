"""The C++ compiler: found, asked, and what it made kept."""

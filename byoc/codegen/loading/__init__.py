"""Loading compiled libraries, and what is checked of them first."""

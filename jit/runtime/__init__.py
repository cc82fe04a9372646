"""Models that serve: a session, its functions and its kernels."""

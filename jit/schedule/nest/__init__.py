"""What a loop nest computes, free of the order in which it does."""

"""Language models' choice of tokens, and of experts for tokens."""

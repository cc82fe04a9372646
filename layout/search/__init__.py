"""The choice of layouts: alternatives, constraints, one optimisation problem."""

"""How functions with symbolic shapes are to be compiled."""

"""What an op may read and write: its alternatives, and the forms in which it is an operator."""

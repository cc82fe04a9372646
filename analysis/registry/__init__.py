"""The recognisers: how they are registered, asked and checked."""

"""Terms: interned expressions, their normal form, bounds and rewriting."""

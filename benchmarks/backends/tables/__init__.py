"""TVM's own BYOC pattern tables: what they match before lowering, after it, raised, planned."""

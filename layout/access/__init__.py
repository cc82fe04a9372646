"""How a PrimFunc's accesses carry layouts from buffer to buffer."""

"""Products of float32 by tensor cores, of operands in three pieces of bfloat16 each."""

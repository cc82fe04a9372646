"""Products of matrices by cuBLASLt and CUTLASS."""

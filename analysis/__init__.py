"""Facts about PrimFuncs: what they compute, which operator it is, with a certificate."""

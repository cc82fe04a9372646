"""Hand-over to backends: raise `call_tir` to Relax operators, match, convert."""

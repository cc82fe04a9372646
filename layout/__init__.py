"""Layout decisions: which layout each value has, and where a conversion is paid for."""

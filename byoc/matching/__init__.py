"""What backends could take of a lowered module, what is asked of them, and near misses."""

"""Which backend gets which operators: match, choose, assemble, replay."""

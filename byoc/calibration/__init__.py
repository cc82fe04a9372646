"""What implementations cost on this machine: samples, and a model that interpolates them."""

"""Programs as people write them for GPUs, C and polyhedral tools, written before the analysis saw them."""

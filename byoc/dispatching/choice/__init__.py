"""The choice of backends, alone or with layouts, and the plan file that records it."""

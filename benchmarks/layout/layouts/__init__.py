"""Layout conversions left on real models, by the planner and by others."""

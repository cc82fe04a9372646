"""Schedules that are searched for, and the shapes that they are for."""

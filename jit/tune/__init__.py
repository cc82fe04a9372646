"""Tuning: record shapes, and search for their schedules with meta_schedule."""

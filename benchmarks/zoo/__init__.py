"""Models that nothing was tuned for, as their authors ship them or publish their architecture."""

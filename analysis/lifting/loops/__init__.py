"""From one iteration of a loop to the whole loop: reductions, scans, folds, scatters."""

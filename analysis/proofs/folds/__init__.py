"""What holds of folds: at each of their steps, and of their starts."""

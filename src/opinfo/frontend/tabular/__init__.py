"""Models of rows of features: scalers, linear models, ensembles of decision trees."""

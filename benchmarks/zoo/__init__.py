"""Real models that nothing was tuned for: can they be read, are they right, how fast are they?"""

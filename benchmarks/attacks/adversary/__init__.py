"""PrimFuncs that invite wrong answers, each run against the recovered operator."""

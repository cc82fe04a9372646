"""PrimFuncs of language models as MLC-LLM compiles them, without names."""

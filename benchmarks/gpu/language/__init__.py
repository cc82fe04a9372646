"""Language models on a GPU: opinfo beside TVM's default schedules, as MLC-LLM applies them."""

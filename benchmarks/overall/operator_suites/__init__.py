"""What suites of operator tests share: outcomes, tables, comparisons, workers."""

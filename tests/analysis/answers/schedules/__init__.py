"""What TVM can make of a legalised operator: schedules by hand, generated ones, and lowerings."""

"""Programs in styles that the other families lack, written before the analysis saw them."""

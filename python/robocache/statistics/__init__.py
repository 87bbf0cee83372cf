"""Statistics of rows in one pass, mergeable: moments, extremes and quantiles."""

"""Documents in, a published generation out."""

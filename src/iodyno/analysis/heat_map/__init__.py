"""Features of a grid of counts: quantiles a column, modes, stripes, bursts, change points.

Pure, on the standard library alone: a picture of ten million events has to be there in half a second, and importing numpy takes a
third of it. Grids are small (some hundred columns and rows), so plain loops do.
"""

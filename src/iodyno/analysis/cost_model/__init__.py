"""From trials to an equation: linear models of an outcome with coding, units, intervals, and what follows from them."""

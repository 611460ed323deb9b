"""Networks of queues. What one is: `iodyno.core.network`; how it is solved: one file a method, chosen by `solve`."""

"""Tables and sentences of a load on connections."""

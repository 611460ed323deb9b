"""Reaches hosts: one file an access. Which ones there are is listed in `iodyno.session.accesses`."""

"""iodyno: the dynamometer for network and storage I/O."""

"""Files that people write: read into values of `iodyno.core`, or refused with every mistake named."""

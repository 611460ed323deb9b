"""The command line: one file per command, listed in `iodyno.cli.main`."""

"""The command line: a file for each command, listed in `iodyno.cli.main`, and one for each thing that several share."""

"""`python -m iodyno`: the command, where its script is not in the PATH."""

from iodyno.cli.main import main

main()

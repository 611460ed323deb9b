"""Scripts that call PDQ, in C, Perl, Python or R: their calls are carried out, so that a port is line by line.

`tokens` cuts a script up, whatever its language; `statements` reads loops, assignments and arithmetic; `calls` is
what the calls of PDQ do, in the names of its versions 6 and 7.
"""

from iodyno.formats.pdq.calls import Answers, Run
from iodyno.formats.pdq.reader import is_pdq, run_script

__all__ = ["Answers", "Run", "is_pdq", "run_script"]

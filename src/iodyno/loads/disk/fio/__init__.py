"""Job files of fio: sections in, settings of the workload `disk` out, or one error with every mistake."""

from iodyno.loads.disk.fio.ini import is_job_file, parse_sections, read_sections
from iodyno.loads.disk.fio.jobs import Job, jobs_of

__all__ = ["Job", "is_job_file", "jobs_of", "parse_sections", "read_sections"]

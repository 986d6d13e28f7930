"""Reports: runs as one HTML page."""

from nmt.report.page import report_data, report_page
from nmt.report.runs import Run, read_run, runs_in

__all__ = ["Run", "read_run", "report_data", "report_page", "runs_in"]

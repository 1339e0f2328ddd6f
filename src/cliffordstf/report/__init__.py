"""The report: one self-contained HTML page, and one picture, of what a model learned and where it errs."""

from cliffordstf.report.inputs import ReportInputs, ReportSection
from cliffordstf.report.page import write_report
from cliffordstf.report.summary import write_summary_png

__all__ = ["ReportInputs", "ReportSection", "write_report", "write_summary_png"]

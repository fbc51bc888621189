"""Reports of a run: a table for the terminal, Markdown, CSV, and one self-contained HTML page."""

from rolecall.insight.run_source import ConfigPreviews, Previews, RunSource, StoredRun
from rolecall.ui.report.page import page_parts, report_html
from rolecall.ui.report.terminal_report import report_terminal
from rolecall.ui.report.text_reports import report_csv, report_markdown

__all__ = [
    'ConfigPreviews',
    'Previews',
    'RunSource',
    'StoredRun',
    'page_parts',
    'report_csv',
    'report_html',
    'report_markdown',
    'report_terminal',
]

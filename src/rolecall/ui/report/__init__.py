"""What a run found, to read: a table for the terminal, Markdown, CSV, and one HTML page that holds everything."""

from rolecall.insight.run_source import ConfigPreviews, Previews, Run, StoredRun
from rolecall.ui.report.page import page_parts, report_html
from rolecall.ui.report.terminal_report import report_terminal
from rolecall.ui.report.text_reports import report_csv, report_markdown

__all__ = [
    'ConfigPreviews',
    'Previews',
    'Run',
    'StoredRun',
    'page_parts',
    'report_csv',
    'report_html',
    'report_markdown',
    'report_terminal',
]

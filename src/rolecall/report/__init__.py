"""What a run found, to read: a table for the terminal, Markdown, CSV, and one HTML page that holds everything."""

from rolecall.report.markdown import report_markdown
from rolecall.report.origins import ConfigPreviews
from rolecall.report.page import page_parts, report_html
from rolecall.report.sheet import report_csv
from rolecall.report.source import Previews, Run
from rolecall.report.stored import StoredRun
from rolecall.report.terminal import report_terminal

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

"""What a run found, to read: a table for the terminal, Markdown, CSV, and one HTML page that holds everything."""

from rolecall.views.report.markdown import report_markdown
from rolecall.views.report.origins import ConfigPreviews
from rolecall.views.report.page import page_parts, report_html
from rolecall.views.report.sheet import report_csv
from rolecall.views.report.source import Previews, Run
from rolecall.views.report.stored import StoredRun
from rolecall.views.report.terminal import report_terminal

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

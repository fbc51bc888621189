from rolecall.insight.run_source import ConfigPreviews as ConfigPreviews
from rolecall.insight.run_source import Previews as Previews
from rolecall.insight.run_source import StoredRun as StoredRun
from rolecall.ui.report.page import build_page as build_page
from rolecall.ui.report.page import report_html as report_html
from rolecall.ui.report.terminal_report import report_terminal as report_terminal
from rolecall.ui.report.text_reports import report_csv as report_csv
from rolecall.ui.report.text_reports import report_markdown as report_markdown

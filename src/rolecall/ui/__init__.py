"""What people see: command line, web page, reports, terminal views, notebooks."""

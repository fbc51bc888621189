"""`python -m rolecall` is `rolecall`."""

import sys

from rolecall.ui.cli.main import main

if __name__ == '__main__':
    sys.exit(main())

"""The commands of the command line, declared with argparse alone so that `rolecall --help` is instant."""

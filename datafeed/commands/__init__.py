"""Hold one command of the command line per module."""

"""Work with run directories, or import logs of other harnesses."""

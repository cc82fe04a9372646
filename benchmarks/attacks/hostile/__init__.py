"""Files that try to run code, to write, to crash or to hang whoever reads them."""

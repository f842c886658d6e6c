"""Data: the paper's synthetic tasks, and what ships inside registry packages."""

"""Worker processes that parse clients' texts within limits of time and memory."""

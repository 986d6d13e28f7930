"""Arrays in compiled code: tables of addresses, moves, copies, runs and segments of rows."""

"""Options of the search: score rules, constraints, sampling, beam groups, penalties."""

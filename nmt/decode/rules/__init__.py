"""Options of the search: score rules, constraints, sampling, penalties."""

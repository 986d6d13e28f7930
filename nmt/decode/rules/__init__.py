"""Options of the search: score rules, glossaries, sampling, penalties."""

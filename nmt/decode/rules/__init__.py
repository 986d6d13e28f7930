"""What a search may be asked for: rules on scores, constraints, sampling, groups, penalties."""

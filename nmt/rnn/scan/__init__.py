"""A cell over time: the runs, what they check and keep, and what is prepared for them."""

"""Options that commands share, and the base class of commands."""

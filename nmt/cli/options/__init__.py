"""Options that commands share, and how a command is declared."""

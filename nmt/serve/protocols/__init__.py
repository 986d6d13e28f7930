"""The protocols of clients, the page, and their description."""

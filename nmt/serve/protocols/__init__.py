"""The protocols of clients, the web page, and the API description."""

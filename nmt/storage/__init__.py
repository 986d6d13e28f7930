"""Models on disk: folders, bundles and checkpoints. Whatever is read is checked, and files are written completely or
not at all."""

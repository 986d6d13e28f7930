"""Our models in forms that need nothing of ours."""

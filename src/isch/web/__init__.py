"""The search page and its API: an app is a value built from a collection and settings."""

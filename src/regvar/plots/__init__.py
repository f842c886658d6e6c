"""Records → figures, in one quiet style; never touches a model."""

"""What a backend is, and the regions that it is handed."""

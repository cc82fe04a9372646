"""Recurrent layers, as several formats import them."""

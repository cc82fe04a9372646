"""Parts of a sum, product or extreme as one reduction."""

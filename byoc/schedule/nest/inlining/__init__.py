"""What one loop nest reads of another, inside of the reader."""

"""What a compilation is asked for, checked and in one form."""

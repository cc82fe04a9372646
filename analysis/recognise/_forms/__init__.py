"""Forms of terms that several families of recognisers read."""

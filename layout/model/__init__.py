"""What a layout is: digits, strings, orders, sizes."""

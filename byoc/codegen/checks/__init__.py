"""What compiled code checks when it runs: kept, named or left out."""

"""How a composite follows from its definition: constructor, type, lowering and certificate."""

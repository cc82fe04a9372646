"""What the rewrites of Relax functions share."""

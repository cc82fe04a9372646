"""From a dispatched module to a library: finish, build, leave out regions that do not build."""

"""From a dispatched module to a library: finish, build, and leave out what does not build."""

"""What has nothing to do with PrimFuncs: files, JSON, progress."""

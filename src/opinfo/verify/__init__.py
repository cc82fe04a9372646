"""A compiled model beside the unmodified one."""

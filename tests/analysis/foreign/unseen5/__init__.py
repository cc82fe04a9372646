"""What TVM's own schedulers leave, and programs as other tensor compilers print them."""

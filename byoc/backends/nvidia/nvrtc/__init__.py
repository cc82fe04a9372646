"""How NVRTC compiles the kernels of TVM: with which options and headers."""

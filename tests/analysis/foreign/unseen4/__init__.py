"""Programs in the manner of GPU kernels, C and polyhedral tools, in forms that no family had."""

"""Where the costs of a dispatch come from: measurements, or a calibration."""

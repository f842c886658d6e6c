"""Fine-tuned networks on real data: every method's likelihood, calibration and sense of shift."""
